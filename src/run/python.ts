import { userHome } from "../host/home.ts";
import type { Host } from "../host/host.ts";
import type { Mount, Sandbox } from "../host/sandbox.ts";
import { fetchForScript, isFetched, type UvCommand, type UvScript, uvCommand, uvPrograms } from "../sandbox/uv.ts";
import { SkillError } from "../shared/error.ts";
import { inlineDependencies, interpreterOf, SKILL_FOLDER, type SkillScript } from "../skill/script.ts";
import type { SkillCopy } from "../source/digest.ts";
import { endpointsIn } from "./endpoints.ts";

export interface PythonOptions {
  sandbox: Sandbox;
  /** The skill's folder in the sandbox. */
  mount: Mount;
  /** Where what was fetched is kept. */
  folder: string;
  /** Fetch also what has been fetched already. */
  update?: boolean;
  onProgress(text: string): void;
  signal: AbortSignal;
}

/** How a Python script that declares what it needs is run: with uv, offline. Nothing for any other script. */
export async function pythonCommand(
  host: Host,
  script: SkillScript,
  copy: SkillCopy,
  options: PythonOptions,
): Promise<UvCommand | undefined> {
  const needed = dependenciesOf(script, copy);
  if (needed === undefined) return undefined;
  if (!uvPrograms(userHome(host.env ?? process.env)).has("uv")) {
    throw new SkillError("uv-missing", {
      message: `"${script.path}" declares Python packages (${needed.slice(0, 5).join(", ")}), which uv brings, and uv is not installed`,
      fix: "install uv (https://docs.astral.sh/uv), then run `skillet packages build`",
    });
  }
  if (options.sandbox.by !== "bubblewrap") {
    throw new SkillError("python-packages", {
      message: `"${script.path}" declares Python packages, which are brought only into sandboxes of bubblewrap`,
      fix: "put them into the image, and take the declaration out of the script",
    });
  }
  const wanted = uvScript(script, copy);
  if (options.update || !isFetched(wanted, options.folder)) {
    await fetchForScript(wanted, {
      ...options,
      skill: options.mount,
      index: endpointsIn(host.settings.sandbox.pythonIndex),
    });
  }
  return uvCommand(wanted, options.folder);
}

export function uvScript({ path }: SkillScript, { files }: SkillCopy): UvScript {
  return { path: `${SKILL_FOLDER}/${path}`, bytes: files.get(path)?.bytes ?? new Uint8Array() };
}

/** Whether a script declares Python packages, and which. */
export function dependenciesOf(script: SkillScript, copy: SkillCopy): readonly string[] | undefined {
  const bytes = copy.files.get(script.path)?.bytes ?? new Uint8Array();
  const program = interpreterOf(script.path, bytes)?.program ?? "";
  return /^(?:python[\d.]*|uv)$/.test(program) ? inlineDependencies(Buffer.from(bytes).toString("utf8")) : undefined;
}
