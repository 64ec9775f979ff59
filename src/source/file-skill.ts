import { CODES } from "../codes/findings.ts";
import { SkillError } from "../shared/error.ts";
import { type Data, emptyData } from "../skill/data.ts";
import type { Finding } from "../skill/diagnostic.ts";
import { findFrame, trimBody } from "../skill/frame.ts";
import { type Manifest, readManifest } from "../skill/manifest.ts";
import type { FileList, Origin, Skill, SkillFile, SkillFingerprint } from "../skill/skill.ts";
import { isSameStamp, readText, type Stamp, stampOf, statOf } from "./file.ts";
import { expectedFolder, isReplaced, listSkillFiles, readSkillFile, withOwnFile } from "./file-list.ts";
import type { FolderSeen } from "./nested-skills.ts";
import { readTriggerQueries, TRIGGER_QUERIES, trainingExamples } from "./trigger-queries.ts";

type BodyIn = (text: string) => string | undefined;

export interface FileSkillParts {
  name: string;
  description: string;
  origin: Origin & { file: string };
  findings: readonly Finding[];
  /** The frontmatter as JSON. */
  data: string;
  /** The instructions in the file's text; nothing when it is no skill's. Those of Markdown when left out. */
  bodyIn?: BodyIn | undefined;
  /** What the file was when it was found. */
  stamp?: Stamp | undefined;
  /** What was seen of its folder when it was found. */
  seen?: FolderSeen | undefined;
}

// Every key that a policy looks at, wherever it stands: a rule that reads another needs it here.
const ASKING = /"(?:packages|scripts|env|requires|os|required[_-]tools|capabilities|sensitive|access)":/;

/** And those that say who may invoke it. All of them have a part in common, which is found in a tenth of the time. */
const LIMITING = /"(?:disable[_-]model[_-]invocation|user[_-]invo[ck]able)":/;
const LIMITING_PART = "invo";

/** A skill that lives in a file. A class, because ten thousand of these share what they do and keep only what differs. */
export class FileSkill implements Skill {
  readonly name: string;
  readonly description: string;
  readonly origin: Origin & { file: string };
  readonly findings: readonly Finding[];
  readonly #data: string;
  readonly #bodyIn: BodyIn;
  readonly #stamp: Stamp | undefined;
  readonly #seen: FolderSeen | undefined;
  #asks: boolean | undefined;
  #manifest: Manifest | undefined;
  #body: { text: string; stamp: Stamp } | undefined;
  #files: FileList | undefined;

  constructor(parts: FileSkillParts) {
    this.name = parts.name;
    this.description = parts.description;
    this.origin = parts.origin;
    this.findings = parts.findings;
    this.#data = parts.data;
    this.#bodyIn = parts.bodyIn ?? markdownBody;
    this.#stamp = parts.stamp;
    this.#seen = parts.seen;
  }

  get manifest(): Manifest {
    this.#manifest ??= readManifest(withoutPrototypes(JSON.parse(this.#data)) as Data);
    return this.#manifest;
  }

  asksOfHost(): boolean {
    this.#asks ??= ASKING.test(this.#data);
    return this.#asks;
  }

  limitsInvocation(): boolean {
    return this.#data.includes(LIMITING_PART) && LIMITING.test(this.#data);
  }

  /** Of its file as it was found, and of the queries next to it as they are now, if there was a folder for them. */
  fingerprint(): SkillFingerprint | undefined {
    if (!this.#stamp) return undefined;
    const { file, folder } = this.origin;
    const hasQueries = folder !== undefined && this.#seen?.hasEvals !== false;
    const queries = !hasQueries ? undefined : statOf(`${folder}/${TRIGGER_QUERIES}`);
    const value = queries ? `${written(this.#stamp)} ${written(queries)}` : written(this.#stamp);
    return { file, value, changedAt: Math.max(this.#stamp.mtimeMs, queries?.mtimeMs ?? 0) };
  }

  body(): string {
    const { file } = this.origin;
    const stats = statOf(file);
    if (this.#body && stats && isSameStamp(this.#body.stamp, stampOf(stats))) return this.#body.text;
    const read = withOwnFile(this.origin, readText);
    if (!read) throw notFolder(this);
    if ("finding" in read) throw this.#unreadable(read.finding);
    const text = this.#bodyIn(read.text);
    if (text === undefined) throw this.#unreadable({ code: "frontmatter-missing", message: "is no skill any more" });
    this.#body = { text, stamp: read.stamp };
    return text;
  }

  files(): FileList {
    this.#files ??= this.#list();
    return this.#files;
  }

  hasOtherFiles(): boolean {
    return this.#files !== undefined && JSON.stringify(this.#files) !== JSON.stringify(this.#list());
  }

  #list(): FileList {
    return listSkillFiles(this.origin);
  }

  examples(): readonly string[] {
    const declared = this.manifest.triggers.examples;
    const { folder } = this.origin;
    const asked = folder === undefined ? undefined : readTriggerQueries(folder, expectedFolder(this.origin));
    return asked === undefined ? declared : [...declared, ...trainingExamples(asked.queries)];
  }

  read(path: string): Uint8Array {
    const { files } = this.files();
    if (!files.some((file) => file.path === path))
      throw isReplaced(this) ? notFolder(this) : unlisted(this.name, path, files);
    const result = readSkillFile(this.origin, path);
    if ("bytes" in result) return result.bytes;
    throw new SkillError(`resource-${result.code}`, {
      message: `Skill "${this.name}": ${result.message}`,
      fix: result.code === "too-large" ? "split it" : FIND_AGAIN,
    });
  }

  #unreadable({ code, message }: Finding): SkillError {
    const what = `The instructions of skill "${this.name}" cannot be read: ${this.origin.file} ${message}`;
    return new SkillError(code, { message: what, fix: CODES[code].fix });
  }
}

const FIND_AGAIN = "find the skills again: the folder changed since its files were listed";

/** The error for a skill in whose place another folder is now. */
export function notFolder({ name, origin }: Pick<Skill, "name" | "origin">): SkillError {
  const { folder, file = "" } = origin;
  const what =
    folder !== undefined && isReplaced({ origin }) ? `${folder} is not the folder` : `${file} is not the file`;
  return new SkillError("resource-changed", {
    message: `Skill "${name}" cannot be read: ${what} that was found`,
    fix: FIND_AGAIN,
  });
}

/** The error for a path that is none of a skill's files. */
export function unlisted(skill: string, path: string, files: readonly SkillFile[]): SkillError {
  const names = files.slice(0, 10).map((file) => file.path);
  return new SkillError("resource-unlisted", {
    message: `Skill "${skill}" has no file "${path}"`,
    fix: names.length === 0 ? "it has no files beside its instructions" : `it has: ${names.join(", ")}`,
  });
}

function written({ mtimeMs, size, ino }: Stamp): string {
  return `${mtimeMs} ${size} ${ino}`;
}

// The file may have become a link to anything: what is no skill any more is not handed out.
function markdownBody(text: string): string | undefined {
  const frame = findFrame(text);
  return "start" in frame && frame.closed ? trimBody(frame.text.slice(frame.bodyStart)) : undefined;
}

export function withoutPrototypes(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value))
    return value.every((item) => typeof item === "string") ? value : value.map(withoutPrototypes);
  const data = emptyData();
  for (const [key, item] of Object.entries(value)) data[key] = withoutPrototypes(item);
  return data;
}
