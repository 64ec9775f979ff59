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
  keepCompiled();
  require(path.join(__dirname, "..", "dist", "cli.cjs")).run();
}

// Keeps what V8 compiled in a folder of the user's own: in the shared one that is the default, others could leave code for us.
function keepCompiled() {
  var home = process.env.SKILLET_HOME || path.join(process.env.HOME || require("os").homedir(), ".skillet");
  require("module").enableCompileCache(path.join(home, "cache", "compiled"));
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
  var pinned = path.join(__dirname, "..", "node_modules", ".bin", process.platform === "win32" ? "node.cmd" : "node");
  if (process.env.SKILLET_STARTED_AGAIN || !fs.existsSync(pinned)) {
    process.stderr.write(
      "skillet needs Node " +
        NEEDED.join(".") +
        " or newer; this is " +
        process.versions.node +
        ".\n" +
        "  install a newer one, or run it from a clone after `npm ci`, which brings its own\n",
    );
    process.exitCode = 2;
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
