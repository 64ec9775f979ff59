import {
  CLIENT_LISTINGS,
  clientNamed,
  type ListingClient,
  type McpRoom,
  UNKNOWN_CLIENT,
} from "../catalog/client-listings.ts";
import { isInReach } from "../catalog/reach.ts";
import type { Session } from "../session/session.ts";
import { count } from "../shared/text.ts";
import type { Skill } from "../skill/skill.ts";

/** The texts in which a client's model reads which skills are served. */
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
  /** What `load_skill` does. */
  loadDescription: string;
  /** Names of the skills that are not listed, since the client lists them itself. */
  leftOut?: ReadonlySet<string>;
}

/** Returns a sentence for the model about the skills that the client lists itself; undefined if there are none. */
export function leftOutNote(session: Session, names: ReadonlySet<string>): string | undefined {
  const { length } = session.visible().filter((skill) => names.has(skill.name) && isInReach(skill));
  if (length === 0) return undefined;
  return `${count(length, "more skill")} ${length === 1 ? "is" : "are"} not repeated here: your own list of skills has ${length === 1 ? "it" : "them"}`;
}

/** Returns the client of the table that announces itself by this name. */
export function clientOf(clientName: string | undefined): ListingClient | undefined {
  return clientName === undefined ? undefined : clientNamed(clientName);
}

/** Returns how much of a server's texts reaches the model of the client that announces itself by this name. */
export function roomFor(clientName: string | undefined): McpRoom {
  const client = clientOf(clientName);
  return client === undefined ? UNKNOWN_CLIENT : CLIENT_LISTINGS[client].mcp;
}

const NONE: ReadonlySet<string> = new Set();
const HEADING =
  "Skills hold instructions for certain tasks. When one fits the request, load it with load_skill before you answer, and follow it.";
const PROVIDING =
  " A loaded skill may bring tools, named skill__tool; where your list of tools does not show them, call them with call_skill_tool.";
const CONTINUES = "\n(the list continues in the description of load_skill)";
const CONTINUED = "The list of skills, continued:\n";
const ELSEWHERE = "The description of load_skill lists the skills.";

/**
 * Lists the skills where a client's model sees them: in the instructions, continued in the description of `load_skill`; there alone if
 * the client drops instructions. A client that is not known may drop them, so it gets the list in both, each as much as is safe.
 */
export function listForMcp(session: Session, room: McpRoom, options: ServedListingOptions): ServedListing {
  const { before, loadDescription, leftOut = NONE } = options;
  const note = leftOutNote(session, leftOut);
  const after = [note === undefined ? "" : `(${note})`, options.after ?? ""].filter(isText).join("\n\n");
  const isLeftOut = ({ name }: Skill) => leftOut.has(name);
  const list = (most: number) => session.listing({ room: most, isLeftOut });
  // The static list has its own sentences on when to invoke a skill.
  const heading = session.disclosureMode === "static" ? "" : session.isReadOnly ? HEADING : HEADING + PROVIDING;
  const inInstructions = (...list: string[]) => [before ?? [], heading, list, after].flat().filter(isText).join("\n\n");
  const inDescription = (list: string) => [loadDescription, list].filter(isText).join("\n\n");
  const roomAbove = Math.max(0, room.instructions - inInstructions("").length - 2);
  const roomBelow = Math.max(0, room.toolDescription - inDescription("").length - 2);
  if (room === UNKNOWN_CLIENT) {
    const [above, below] = [roomAbove, roomBelow].map(list);
    return { instructions: inInstructions(above ?? ""), loadDescription: inDescription(below ?? "") };
  }
  if (room.instructions === 0) {
    const text = list(roomBelow - after.length - 2);
    const below = [text, after].filter(isText).join("\n\n");
    return { instructions: inInstructions(text === "" ? "" : ELSEWHERE), loadDescription: inDescription(below) };
  }
  const { above, below } = listInTwo(list, roomAbove, roomBelow);
  return { instructions: inInstructions(above), loadDescription: inDescription(below) };
}

/** One list over two texts. Lines are not divided, so what does not fit the second text is taken off the room until it does. */
function listInTwo(
  list: (room: number) => string,
  roomAbove: number,
  roomBelow: number,
): { above: string; below: string } {
  const whole = list(roomAbove);
  // As long as all have room: the list of the whole budget fits.
  let room = roomAbove + roomBelow - CONTINUES.length - CONTINUED.length;
  let text = list(room);
  if (text.length <= roomAbove) return { above: text, below: "" };
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const [above, below] = divideList(text, roomAbove - CONTINUES.length);
    const excess = below.length + CONTINUED.length - roomBelow;
    if (above !== "" && excess <= 0) return { above: above + CONTINUES, below: CONTINUED + below };
    room -= Math.max(excess, 1);
    if (room <= roomAbove) break;
    text = list(room);
  }
  return { above: whole, below: "" };
}

const MOST_TRIES = 8;

/** Divides a list where a line ends, or a name in a list of names alone. */
function divideList(text: string, most: number): [string, string] {
  for (const end of ["\n", ", "]) {
    const at = text.lastIndexOf(end, most);
    if (at > 0) return [text.slice(0, at), text.slice(at + end.length)];
  }
  return ["", text];
}

function isText(text: string): boolean {
  return text !== "";
}
