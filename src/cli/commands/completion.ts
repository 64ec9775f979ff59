import { reveal } from "../../shared/hidden.ts";
import { oneLine } from "../../shared/text.ts";
import { type Wanted, type Word, wantedBy } from "../completion.ts";
import { COMPLETED } from "../completion-shells.ts";
import { EXIT } from "../exit.ts";
import { discoverFor } from "../found.ts";
import type { Io } from "../io.ts";
import { buildProgram, type Context } from "../program.ts";
import { EXPORT_TARGETS, NATIVE_CLIENT_NAMES } from "../rows/install.ts";

/** Prints the script of a shell; or, asked by it with a line, what can come next. */
export async function completion({ io, args: [shell, ...line] }: Context<object>): Promise<number> {
  const { script, read, print } = COMPLETED[shell as keyof typeof COMPLETED];
  if (line.length === 0) {
    io.stdout.write(script);
    return EXIT.fine;
  }
  const { typed, last, isQuoted, kept } = read(line);
  const wanted = wantedBy(
    buildProgram(io, [], () => {}),
    typed.slice(1),
    last,
  );
  const { words, places } = KINDS[wanted.kind ?? ""] ?? {};
  const found = [...wanted.words, ...((await words?.(io, wanted)) ?? [])];
  const isPlain = isQuoted || (places !== undefined && found.length > 0);
  const lines = found
    .map(({ word, says }) => ({ word: wanted.before + word, says: oneLine(reveal(says), LONGEST) }))
    .filter(({ word }) => word.startsWith(last))
    .map((word) => print(word, isPlain).slice(kept));
  io.stdout.write([...lines, ...(places ? [places] : [])].map((text) => `${text}\n`).join(""));
  return EXIT.fine;
}

const LONGEST = 72;

/** What can stand where the help names this. */
const KINDS: Readonly<Record<string, Kind>> = {
  skill: { words: skills },
  path: { words: skills, places: ":files" },
  file: { places: ":files" },
  source: { places: ":files" },
  folder: { places: ":folders" },
  client: { words: async () => NATIVE_CLIENT_NAMES.map((word) => ({ word, says: "" })) },
  target: { words: async () => EXPORT_TARGETS.map((word) => ({ word, says: "" })) },
  key: { words: keys },
};

interface Kind {
  words?(io: Io, wanted: Wanted): Promise<Word[]>;
  places?: ":files" | ":folders";
}

async function skills(io: Io, { workspace }: Wanted): Promise<Word[]> {
  const { catalog } = await discoverFor(io, workspace === undefined ? {} : { workspace });
  return catalog.skills.map(({ name, manifest }) => ({ word: name, says: manifest.briefDescription }));
}

async function keys(): Promise<Word[]> {
  const { KEYS } = await import("../../host/keys.ts");
  return KEYS.filter(({ path }) => !path.includes("*")).map(({ path, means }) => ({ word: path, says: means }));
}
