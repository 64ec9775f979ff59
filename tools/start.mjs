// `npm start`: what is missing is installed first, then the program shows what is here and what to do next.
import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { setUp } from "./set-up.mjs";

setUp();
const program = join(dirname(fileURLToPath(import.meta.url)), "..", "bin", "skillet.cjs");
const { status } = spawnSync(process.execPath, [program, ...process.argv.slice(2)], { stdio: "inherit" });
process.exitCode = status ?? 1;
