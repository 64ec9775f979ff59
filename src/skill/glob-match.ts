/**
 * Whether a glob names a path: `*` and `?` within a folder, `**` across folders, `[a-z]`, `{a,b}`. One step a character, so that no
 * pattern takes long. Contract: the path is normalised, with `/` between its parts.
 */
export function matchesGlob(glob: string, path: string): boolean {
  return alternatives(glob).some((one) => matches(partsOf(one), path));
}

/** `skip` and `inside` are the two of `**` with a slash: no folder, or some. */
type Part = { kind: "any" | "all" | "skip" | "inside" } | { kind: "one"; fits(character: string): boolean };

const TOKEN = /\*\*\/|\*\*+|\*|\?|\[[^\]\n]+\]|[\s\S]/gu;

function partsOf(glob: string): Part[] {
  return (glob.match(TOKEN) ?? []).flatMap((token): Part[] => {
    if (token === "**/") return [{ kind: "skip" }, { kind: "inside" }];
    if (token.startsWith("**")) return [{ kind: "all" }];
    if (token === "*") return [{ kind: "any" }];
    if (token === "?") return [{ kind: "one", fits: (character) => character !== "/" }];
    if (token.startsWith("[") && token.length > 2) return [{ kind: "one", fits: classOf(token.slice(1, -1)) }];
    return [{ kind: "one", fits: (character) => character === token }];
  });
}

function classOf(written: string): (character: string) => boolean {
  const isOutside = /^[!^]/.test(written);
  const members = [...(isOutside ? written.slice(1) : written)];
  return (character) => {
    const isMember = members.some((member, index) => {
      const [dash, last] = [members[index + 1], members[index + 2]];
      return member === character || (dash === "-" && last !== undefined && member <= character && character <= last);
    });
    return character !== "/" && isMember !== isOutside;
  };
}

/** Follows all ways to read the pattern at once. */
function matches(parts: readonly Part[], path: string): boolean {
  let places = reachedFrom(parts, [0]);
  for (const character of path) {
    places = reachedFrom(
      parts,
      [...places].flatMap((place) => after(parts, place, character)),
    );
  }
  return places.has(parts.length);
}

function after(parts: readonly Part[], place: number, character: string): number[] {
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

/** What a star stands for may be nothing. */
function reachedFrom(parts: readonly Part[], places: readonly number[]): Set<number> {
  const reached = new Set(places);
  for (const place of reached) {
    const kind = parts[place]?.kind;
    if (kind === "any" || kind === "all" || kind === "skip") reached.add(place + 1);
    if (kind === "skip") reached.add(place + 2);
  }
  return reached;
}

const MOST_ALTERNATIVES = 64;

/** One glob for each choice in braces. */
function alternatives(glob: string): string[] {
  const done: string[] = [];
  const open = [glob];
  while (open.length > 0 && open.length + done.length <= MOST_ALTERNATIVES) {
    const one = open.pop() ?? "";
    const [found, inner = ""] = /\{([^{}]*,[^{}]*)\}/.exec(one) ?? [];
    if (found === undefined) done.push(one);
    else open.push(...inner.split(",").map((choice) => one.replace(found, () => choice)));
  }
  return [...done, ...open];
}
