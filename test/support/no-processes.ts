import { syncBuiltinESMExports } from "node:module";
import { afterEach } from "vitest";

/**
 * Keeps the fast tier fast: a test that starts a process or uses a socket fails, also if the program handles the error. The modules are
 * not imported here, because a test that imports them is in another tier.
 */
const childProcess = process.getBuiltinModule("node:child_process");
const net = process.getBuiltinModule("node:net");

/** The calls that were refused in the test that runs. */
export const refused: string[] = [];

refuse(childProcess, ["spawn", "spawnSync", "exec", "execSync", "execFile", "execFileSync", "fork"]);
refuse(net.Server.prototype, ["listen"]);
refuse(net.Socket.prototype, ["connect"]);
refuse(process.getBuiltinModule("node:dgram"), ["createSocket"]);
syncBuiltinESMExports();

afterEach(() => {
  const [first] = refused.splice(0);
  if (first !== undefined) throw new Error(first);
});

function refuse(owner: object, names: readonly string[]): void {
  for (const name of names) {
    const value = (target: unknown) => {
      const call = typeof target === "string" ? `${name} ${JSON.stringify(target)}` : name;
      const message = `A test of the fast tier called ${call}: name its file NAME.process.test.ts (see test/support/tiers.ts)`;
      refused.push(message);
      throw new Error(message);
    };
    Object.defineProperty(owner, name, { configurable: true, writable: true, value });
  }
}
