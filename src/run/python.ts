import { userHome } from "../host/home.ts";
import type { Host } from "../host/host.ts";
import type { Endpoint, Mount, Sandbox } from "../host/sandbox.ts";
import { readEndpoint } from "../sandbox/endpoint.ts";
import { fetchForScript, isFetched, type UvScript, uvPrograms } from "../sandbox/uv.ts";
import { SkillError } from "../shared/error.ts";
import { PYTHON_PACKAGE } from "../skill/package-specifier.ts";
import { inlineDependencies, interpreterOf, SKILL_FOLDER, type SkillScript, scriptsOf } from "../skill/script.ts";
import type { Skill } from "../skill/skill.ts";
import type { SkillCopy } from "../source/digest.ts";
import { endpointsIn } from "./endpoints.ts";

/** A script that declares Python packages in its own comments. */
export interface DeclaringScript {
  script: SkillScript;
  /** As it is written. */
  declared: readonly string[];
}

export interface InlineOptions {
  sandbox: Sandbox;
  /** The skill's folder in the sandbox. */
  mount: Mount;
  /** Where what was fetched is kept. */
  folder: string;
  /** Decides what becomes of a script whose packages cannot be had; throws when left out. */
  onFailed?(script: SkillScript, error: unknown): void;
  /** Fetch also what has been fetched already. */
  update?: boolean;
  onProgress(text: string): void;
  signal: AbortSignal;
}

/** The scripts of a skill that declare Python packages. */
export function declaringScripts(skill: Skill, copy: SkillCopy): DeclaringScript[] {
  if (![...copy.files.keys()].some((path) => /(?:\.py|\/[^.]+)$/i.test(path))) return [];
  return scriptsOf(skill).flatMap((script) => {
    const declared = dependenciesOf(script, copy);
    return declared ? [{ script, declared }] : [];
  });
}

export function hasUv(host: Host): boolean {
  return uvPrograms(userHome(host.env ?? process.env)).has("uv");
}

/** Fetches what scripts declare, with uv, unless it is there. Contract: the sandbox is one of bubblewrap. */
export async function fetchInline(
  host: Host,
  scripts: readonly DeclaringScript[],
  copy: SkillCopy,
  options: InlineOptions,
): Promise<void> {
  const { folder, mount, update = false, signal } = options;
  const { url, endpoints } = pythonIndex(host);
  const index = [...endpointsIn(host.settings.sandbox.pythonIndex), ...endpoints];
  for (const { script } of scripts) {
    const wanted = uvScript(host, script, copy);
    if (!update && isFetched(wanted, folder)) continue;
    try {
      await fetchForScript(wanted, { ...options, skill: mount, index, indexUrl: url });
    } catch (error) {
      if (!options.onFailed || signal.aborted) throw error;
      options.onFailed(script, error);
    }
  }
}

export function uvScript(host: Host, { path }: SkillScript, { files }: SkillCopy): UvScript {
  const bytes = files.get(path)?.bytes ?? new Uint8Array();
  return { path: `${SKILL_FOLDER}/${path}`, bytes, index: pythonIndex(host).shown };
}

/** The packages that scripts declare, where a plain name and versions say it. For pip, which no script can give anything else. */
export function plainDependencies(scripts: readonly DeclaringScript[]): string[] {
  return scripts.flatMap(({ declared }) => declared.filter((one) => PYTHON_PACKAGE.test(one)));
}

/** Refuses a script that declares a package in a way that is for uv. */
export function requirePlain({ script, declared }: DeclaringScript): void {
  const odd = declared.find((one) => !PYTHON_PACKAGE.test(one));
  if (odd === undefined) return;
  throw new SkillError("library-specifier", {
    message: `"${script.path}" declares the Python package "${odd}", which only uv can read, and uv is not installed`,
    fix: "install uv (https://docs.astral.sh/uv): without it, a package is a name with versions, such as requests>=2.31",
  });
}

/** The index that the user set for uv or pip by a variable. */
function pythonIndex({ env = process.env }: Host): { url?: string; shown?: string; endpoints: readonly Endpoint[] } {
  const given = env["UV_DEFAULT_INDEX"] ?? env["UV_INDEX_URL"] ?? env["PIP_INDEX_URL"];
  const url = given === undefined ? null : URL.parse(given);
  if (!given || !url || !/^https?:$/.test(url.protocol)) return { endpoints: [] };
  const endpoint = readEndpoint(`${url.hostname}:${url.port || (url.protocol === "https:" ? 443 : 80)}`);
  url.username = "";
  url.password = "";
  return { url: given, shown: url.href, endpoints: endpoint ? [endpoint] : [] };
}

/** Whether a script declares Python packages, and which. */
function dependenciesOf(script: SkillScript, copy: SkillCopy): readonly string[] | undefined {
  const bytes = copy.files.get(script.path)?.bytes ?? new Uint8Array();
  const program = interpreterOf(script.path, bytes)?.program ?? "";
  return /^(?:python[\d.]*|uv)$/.test(program) ? inlineDependencies(Buffer.from(bytes).toString("utf8")) : undefined;
}
