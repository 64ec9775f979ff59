import { readFileSync } from "node:fs";
import { FIXED_VARIABLES, type Sandbox } from "../host/sandbox.ts";
import { SkillError } from "../shared/error.ts";

// A machine that is busy is not one whose sandbox does not hold.
const LIMITS = { seconds: 60, output: 64 * 1024, memory: 128 * 1024 * 1024, processes: 32, disk: 1024 * 1024 };

/** The shell can tell these of itself; what takes more than a shell, `skillet doctor --sandbox` tries. */
const TOLD = `
for file in /proc/[0-9]*/environ; do tr '\\0' '\\n' < "$file" 2>/dev/null | sed 's/=.*//; s/^/variable /'; done
sed -n 's/^CapEff:[^0-9a-f]*/capabilities /p; s/^NoNewPrivs:[^0-9]*/nonewprivs /p; s/^Seccomp:[^0-9]*/seccomp /p' /proc/self/status
ls /sys/class/net 2>/dev/null | sed 's/^/device /'
sed -n 's/^ *\\([a-z0-9]*\\):.*/device \\1/p' /proc/net/dev
for file in / /usr /etc; do ( : > "$file/.skillet-probe" ) 2>/dev/null && echo "wrote $file"; done
echo end
`;

/** Tries what a sandbox promises; says what does not hold, or nothing. Of macOS, which has no /proc, little can be told. */
export async function failedPromise(sandbox: Sandbox): Promise<string | undefined> {
  const marker = "SKILLET_SELF_TEST";
  let said = "";
  try {
    const { ending, exitCode } = await sandbox.run(
      {
        argv: ["/bin/sh", "-c", TOLD],
        env: { [marker]: "1" },
        folder: "/",
        mounts: [],
        network: [],
        limits: LIMITS,
      },
      {
        onOutput(stream, bytes) {
          if (stream === "stdout") said += bytes;
          return true;
        },
      },
    );
    if (ending !== "exit" || exitCode !== 0) return `its test ended with ${ending}, exit ${exitCode}`;
  } catch (error) {
    if (error instanceof SkillError) return error.message;
    throw error;
  }
  const told = said.split("\n").map((line) => line.split(" "));
  const all = (name: string) => told.filter(([key]) => key === name).map(([, value = ""]) => value);
  const known = new Set([...Object.keys(FIXED_VARIABLES), marker, "PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME"]);
  const isLinux = sandbox.level === "strong"; // Also in a container on another system.
  const checks: [isHeld: boolean, otherwise: string][] = [
    [all("end").length === 1, "its test did not come to its end"],
    // An image may bring variables of its own; those of the host are never among them.
    [all("variable").every((name) => known.has(name) || !(name in process.env)), "code sees variables of the host"],
    [all("capabilities").every((value) => /^0+$/.test(value)), "code keeps privileges"],
    [!isLinux || all("nonewprivs")[0] === "1", "code can gain privileges"],
    [!isLinux || all("seccomp")[0] === "2", "system calls are not filtered"],
    [all("device").every((name) => name === "lo"), "code sees a network"],
    [all("wrote").length === 0, "code can write to the system"],
  ];
  return checks.find(([isHeld]) => !isHeld)?.[1];
}

/** Why a system that has bubblewrap does not let it work, where it says so. */
export function namespaceRemedy(): string | undefined {
  if (setting("kernel/apparmor_restrict_unprivileged_userns") === "1") {
    return "Ubuntu lets only programs with a profile make namespaces: put `abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }` into /etc/apparmor.d/bwrap and run `sudo systemctl reload apparmor`";
  }
  if (setting("kernel/unprivileged_userns_clone") === "0")
    return "run `sudo sysctl -w kernel.unprivileged_userns_clone=1`";
  if (setting("user/max_user_namespaces") === "0") return "run `sudo sysctl -w user.max_user_namespaces=10000`";
  return undefined;
}

function setting(name: string): string | undefined {
  try {
    return readFileSync(`/proc/sys/${name}`, "utf8").trim();
  } catch {
    return undefined;
  }
}
