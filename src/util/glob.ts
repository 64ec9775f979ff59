/**
 * Returns true if a glob matches a path: `*` and `?` within a folder, `**` across folders, `[a-z]`, `{a,b}`. Takes one step per
 * character, so that no pattern is slow. Contract: the path is normalized and uses `/`.
 */
export function matchesGlob(glob: string, path: string): boolean {
  return expandBraces(glob).some((one) => matchGlobParts(parseGlob(one), path));
}

/** A part of a glob, with the pattern that matches the same. `**` with a slash becomes two: `skip` matches no folder, `inside` one or more. */
type GlobPart = { pattern: string } & (
  | { kind: "any" | "all" | "skip" | "inside" }
  | { kind: "one"; fits(character: string): boolean }
);

const GLOB_TOKEN = /\*\*\/|\*\*+|\*|\?|\[[^\]\n]+\]|[\s\S]/gu;

function parseGlob(glob: string): GlobPart[] {
  return (glob.match(GLOB_TOKEN) ?? []).flatMap((token): GlobPart[] => {
    if (token === "**/")
      return [
        { kind: "skip", pattern: "(?:.*/)?" },
        { kind: "inside", pattern: "" },
      ];
    if (token.startsWith("**")) return [{ kind: "all", pattern: ".*" }];
    if (token === "*") return [{ kind: "any", pattern: "[^/\\n]*" }];
    if (token === "?") return [{ kind: "one", pattern: "[^/\\n]", fits: (character) => character !== "/" }];
    if (token.startsWith("[") && token.length > 2) {
      const members = token.slice(1, -1);
      const pattern = `[${members.replace(/^!/, "^").replaceAll("\\", "\\\\")}]`;
      return [{ kind: "one", pattern, fits: parseCharacterClass(members) }];
    }
    return [{ kind: "one", pattern: escapeRegExp(token), fits: (character) => character === token }];
  });
}

function parseCharacterClass(source: string): (character: string) => boolean {
  const isOutside = /^[!^]/.test(source);
  const members = [...(isOutside ? source.slice(1) : source)];
  return (character) => {
    const isMember = members.some((member, index) => {
      const [dash, last] = [members[index + 1], members[index + 2]];
      return member === character || (dash === "-" && last !== undefined && member <= character && character <= last);
    });
    return character !== "/" && isMember !== isOutside;
  };
}

/** Tracks all possible positions in the pattern at once. */
function matchGlobParts(parts: readonly GlobPart[], path: string): boolean {
  let positions = followStars(parts, [0]);
  for (const character of path) {
    positions = followStars(
      parts,
      [...positions].flatMap((index) => advancePart(parts, index, character)),
    );
  }
  return positions.has(parts.length);
}

function advancePart(parts: readonly GlobPart[], index: number, character: string): number[] {
  const part = parts[index];
  switch (part?.kind) {
    case "one":
      return part.fits(character) ? [index + 1] : [];
    case "any":
      return character === "/" ? [] : [index];
    case "all":
      return [index];
    case "inside":
      return character === "/" ? [index, index + 1] : [index];
    default:
      return [];
  }
}

/** Adds the positions that are reachable if a star matches nothing. */
function followStars(parts: readonly GlobPart[], positions: readonly number[]): Set<number> {
  const reached = new Set(positions);
  for (const index of reached) {
    const kind = parts[index]?.kind;
    if (kind === "any" || kind === "all" || kind === "skip") reached.add(index + 1);
    if (kind === "skip") reached.add(index + 2);
  }
  return reached;
}

const MAX_ALTERNATIVES = 64;

/** Returns one glob for each alternative in braces. */
function expandBraces(glob: string): string[] {
  const done: string[] = [];
  const open = [glob];
  while (open.length > 0 && open.length + done.length <= MAX_ALTERNATIVES) {
    const one = open.pop() ?? "";
    const [found, inner = ""] = /\{([^{}]*,[^{}]*)\}/.exec(one) ?? [];
    if (found === undefined) done.push(one);
    else open.push(...inner.split(",").map((choice) => one.replace(found, () => choice)));
  }
  return [...done, ...open];
}

/** Converts a glob to a pattern that matches a path on its own line. It may start in any folder, so `src/*.ts` also matches `./src/a.ts`. */
export function globToPattern(glob: string): string {
  const path = glob
    .replace(/^\.?\//, "")
    .replaceAll("\\", "/")
    .replace(/\{([^{},]*)\}/g, "$1"); // Authors write `*.{ts}` too.
  const [first = "", ...more] = expandBraces(path).map((one) =>
    parseGlob(one)
      .map(({ pattern }) => pattern)
      .join(""),
  );
  return `(?m)^(?:.*/)?${more.length === 0 ? first : `(?:${[first, ...more].join("|")})`}$`;
}

function escapeRegExp(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}
