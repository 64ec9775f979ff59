/**
 * Returns true if a glob matches a path: `*` and `?` within a folder, `**` across folders, `[a-z]`, `{a,b}`. Takes one step per
 * character, so that no pattern is slow. Contract: the path is normalized and uses `/`.
 */
export function matchesGlob(glob: string, path: string): boolean {
  return expandBraces(glob).some((one) => matchGlobParts(parseGlob(one), path));
}

/** `**` with a slash becomes two parts: `skip` matches no folder, `inside` matches one or more. */
type GlobPart = { kind: "any" | "all" | "skip" | "inside" } | { kind: "one"; fits(character: string): boolean };

const GLOB_TOKEN = /\*\*\/|\*\*+|\*|\?|\[[^\]\n]+\]|[\s\S]/gu;

function parseGlob(glob: string): GlobPart[] {
  return (glob.match(GLOB_TOKEN) ?? []).flatMap((token): GlobPart[] => {
    if (token === "**/") return [{ kind: "skip" }, { kind: "inside" }];
    if (token.startsWith("**")) return [{ kind: "all" }];
    if (token === "*") return [{ kind: "any" }];
    if (token === "?") return [{ kind: "one", fits: (character) => character !== "/" }];
    if (token.startsWith("[") && token.length > 2)
      return [{ kind: "one", fits: parseCharacterClass(token.slice(1, -1)) }];
    return [{ kind: "one", fits: (character) => character === token }];
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
  let places = followStars(parts, [0]);
  for (const character of path) {
    places = followStars(
      parts,
      [...places].flatMap((place) => advancePart(parts, place, character)),
    );
  }
  return places.has(parts.length);
}

function advancePart(parts: readonly GlobPart[], place: number, character: string): number[] {
  const part = parts[place];
  switch (part?.kind) {
    case "one":
      return part.fits(character) ? [place + 1] : [];
    case "any":
      return character === "/" ? [] : [place];
    case "all":
      return [place];
    case "inside":
      return character === "/" ? [place, place + 1] : [place];
    default:
      return [];
  }
}

/** Adds the positions that are reachable if a star matches nothing. */
function followStars(parts: readonly GlobPart[], places: readonly number[]): Set<number> {
  const reached = new Set(places);
  for (const place of reached) {
    const kind = parts[place]?.kind;
    if (kind === "any" || kind === "all" || kind === "skip") reached.add(place + 1);
    if (kind === "skip") reached.add(place + 2);
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
  const path = glob.replace(/^\.?\//, "").replaceAll("\\", "/");
  return `(?m)^(?:.*/)?${path.replace(PATTERN_TOKEN, translateToken)}$`;
}

const PATTERN_TOKEN = /\*\*\/|\*\*|\*|\?|\{[^{}]*\}|\[[^\]\n]+\]|[\s\S]/g;

function translateToken(token: string): string {
  if (token === "**/") return "(?:.*/)?";
  if (token === "**") return ".*";
  if (token === "*") return "[^/\\n]*";
  if (token === "?") return "[^/\\n]";
  if (token.startsWith("{") && token.length > 1) {
    const choices = token.slice(1, -1).split(",");
    return `(?:${choices.map((choice) => choice.replace(PATTERN_TOKEN, (part) => (part.startsWith("{") ? escapeRegExp(part) : translateToken(part)))).join("|")})`;
  }
  if (token.startsWith("[") && token.length > 2)
    return `[${token.slice(1, -1).replace(/^!/, "^").replaceAll("\\", "\\\\")}]`;
  return escapeRegExp(token);
}

function escapeRegExp(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}
