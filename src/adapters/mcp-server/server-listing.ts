import type { Session } from "../../agent/session/session.ts";
import {
  CLIENT_LISTINGS,
  findClientByMcpName,
  type ListingClient,
  type McpTextLimits,
  UNKNOWN_CLIENT_LIMITS,
} from "../../catalog/client-listings.ts";
import { isOfferedByDefault } from "../../catalog/listing.ts";
import type { Skill } from "../../skill/skill.ts";
import { formatCount } from "../../util/text.ts";

/** The texts that list the served skills for a client's model. */
export interface ServedListing {
  instructions: string;
  /** The description of `load_skill`. */
  loadDescription: string;
}

export interface ServedListingOptions {
  /** Comes before the text about skills. */
  before?: string | undefined;
  /** Comes after the list. */
  after?: string | undefined;
  /** The description of `load_skill` without the list. */
  loadDescription: string;
  /** Names of skills to omit, because the client lists them itself. */
  omitted?: ReadonlySet<string>;
}

/** Returns a sentence for the model about the skills that the client lists itself; undefined for an empty set. */
export function formatOmittedNote(session: Session, names: ReadonlySet<string>): string | undefined {
  const { length } = session.listVisible().filter((skill) => names.has(skill.name) && isOfferedByDefault(skill));
  if (length === 0) return undefined;
  return `${formatCount(length, "more skill")} ${length === 1 ? "is" : "are"} not repeated here: see your own list of skills`;
}

/** Finds the client of the table with this name. */
export function findListingClient(clientName: string | undefined): ListingClient | undefined {
  return clientName === undefined ? undefined : findClientByMcpName(clientName);
}

/** Returns how much of a server's texts the client with this name passes to its model. */
export function getListingRoom(clientName: string | undefined): McpTextLimits {
  const client = findListingClient(clientName);
  return client === undefined ? UNKNOWN_CLIENT_LIMITS : CLIENT_LISTINGS[client].mcp;
}

const NO_NAMES: ReadonlySet<string> = new Set();
const HEADING =
  "Skills contain instructions for certain tasks. When one fits the request, load it with load_skill before you answer, and follow it.";
const TOOLS_NOTE =
  " A loaded skill may provide tools, named skill__tool. If your list of tools does not show them, call them with call_skill_tool.";
const CONTINUES_NOTE = "\n(the list continues in the description of load_skill)";
const CONTINUED_HEADING = "The list of skills, continued:\n";
const LISTED_ELSEWHERE_NOTE = "The description of load_skill lists the skills.";

/**
 * Lists the skills where a client's model sees them: in the instructions, continued in the description of `load_skill`; only there if the
 * client drops instructions. An unknown client may drop them, so it gets the list in both, each within a safe length.
 */
export async function formatServedListing(
  session: Session,
  room: McpTextLimits,
  options: ServedListingOptions,
): Promise<ServedListing> {
  const { before, loadDescription, omitted: leftOut = NO_NAMES } = options;
  const note = formatOmittedNote(session, leftOut);
  const after = [note === undefined ? "" : `(${note})`, options.after ?? ""].filter(isNonEmpty).join("\n\n");
  const isLeftOut = ({ name }: Skill) => leftOut.has(name);
  const list = (max: number) => session.formatListing({ room: max, isOmitted: isLeftOut });
  // The static list has its own sentences on when to invoke a skill.
  const heading = session.disclosureMode === "static" ? "" : session.isReadOnly ? HEADING : HEADING + TOOLS_NOTE;
  const inInstructions = (...list: string[]) =>
    [before ?? [], heading, list, after].flat().filter(isNonEmpty).join("\n\n");
  const inDescription = (list: string) => [loadDescription, list].filter(isNonEmpty).join("\n\n");
  const roomAbove = Math.max(0, room.instructions - inInstructions("").length - 2);
  const roomBelow = Math.max(0, room.toolDescription - inDescription("").length - 2);
  if (room === UNKNOWN_CLIENT_LIMITS) {
    const [above, below] = await Promise.all([roomAbove, roomBelow].map(list));
    return { instructions: inInstructions(above ?? ""), loadDescription: inDescription(below ?? "") };
  }
  if (room.instructions === 0) {
    const text = await list(roomBelow - after.length - 2);
    const below = [text, after].filter(isNonEmpty).join("\n\n");
    return {
      instructions: inInstructions(text === "" ? "" : LISTED_ELSEWHERE_NOTE),
      loadDescription: inDescription(below),
    };
  }
  const { above, below } = await splitServedList(list, roomAbove, roomBelow);
  return { instructions: inInstructions(above), loadDescription: inDescription(below) };
}

/** Splits one list over two texts. Lines are not divided, so the room shrinks until the second part fits. */
async function splitServedList(
  list: (room: number) => Promise<string>,
  roomAbove: number,
  roomBelow: number,
): Promise<{ above: string; below: string }> {
  const whole = await list(roomAbove);
  // If there is room for everything, the list has the whole budget.
  let room = roomAbove + roomBelow - CONTINUES_NOTE.length - CONTINUED_HEADING.length;
  let text = await list(room);
  if (text.length <= roomAbove) return { above: text, below: "" };
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const [above, below] = divideList(text, roomAbove - CONTINUES_NOTE.length);
    const excess = below.length + CONTINUED_HEADING.length - roomBelow;
    if (above !== "" && excess <= 0) return { above: above + CONTINUES_NOTE, below: CONTINUED_HEADING + below };
    room -= Math.max(excess, 1);
    if (room <= roomAbove) break;
    text = await list(room);
  }
  return { above: whole, below: "" };
}

const MAX_TRIES = 8;

/** Divides a list at the end of a line, or of a name in a list of names. */
function divideList(text: string, max: number): [string, string] {
  for (const end of ["\n", ", "]) {
    const at = text.lastIndexOf(end, max);
    if (at > 0) return [text.slice(0, at), text.slice(at + end.length)];
  }
  return ["", text];
}

function isNonEmpty(text: string): boolean {
  return text !== "";
}
