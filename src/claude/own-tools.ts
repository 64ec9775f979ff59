import { relative } from "node:path";
import { isInside } from "../shared/inside.ts";
import { type Data, isData } from "../skill/data.ts";
import { ourTool } from "../skill/tool-names.ts";
import { placeOf } from "./path.ts";

/** Those that read files, and so need nobody's word for what is theirs to read. */
export const READING: readonly string[] = ["Read", "Glob", "Grep"];
/** What a model answers with where its answer is to be data. */
export const STRUCTURED = "StructuredOutput";
/** What loads an installed skill. */
export const SKILL = "Skill";

/** Where a call is made. All are real paths. */
export interface Ground {
  cwd: string;
  home: string;
  /** Where the installed skills are. */
  skillsDir: string | undefined;
}

/** A call of one of Claude's own tools, as this side understands it. */
export interface OwnCall {
  /** The real path that it is about; the working folder for one that searches and names none. */
  place: string | undefined;
  /** Its input as the rules of `allowed-tools` are about it: relative to the working folder, where it is in there. */
  input: Data;
  /** Whether all that it can see is below these folders. */
  readsOnly(...roots: readonly (string | undefined)[]): boolean;
}

export function readOwnCall(tool: string, given: unknown, ground: Ground): OwnCall {
  const input = isData(given) ? given : {};
  const ours = ourTool(tool);
  const named = [input["file_path"], input["notebook_path"], input["path"]].find((one) => typeof one === "string");
  const place = typeof named === "string" ? placeOf(named, ground) : SEARCHING.has(ours) ? ground.cwd : undefined;
  const path = place === undefined ? {} : { path: within(ground.cwd, place) };
  return {
    place,
    input: { ...input, ...path },
    readsOnly: (...roots) =>
      READING.includes(tool) &&
      place !== undefined &&
      roots.some((root) => root !== undefined && isInside(root, place)) &&
      !(tool === "Glob" && LEAVING.test(String(input["pattern"]).replaceAll("\\", "/"))),
  };
}

const SEARCHING: ReadonlySet<string> = new Set(["list_files", "grep"]);
/** A pattern for names of files that begins elsewhere, or goes up. */
const LEAVING = /^(?:\/|~|[A-Za-z]:)|(?:^|[/{,])\s*\.\.(?:[/},]|$)|[{,]\s*(?:\/|~)/;

function within(cwd: string, place: string): string {
  if (!isInside(cwd, place)) return place;
  return relative(cwd, place).replaceAll("\\", "/") || ".";
}
