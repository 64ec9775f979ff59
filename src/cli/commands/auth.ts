import { signsIn } from "../../capability/ready.ts";
import { isAt, isOf } from "../../capability/vault-entry.ts";
import type { VaultEntry } from "../../host/capabilities.ts";
import { SkillError } from "../../shared/error.ts";
import { byText, count, oneLine } from "../../shared/text.ts";
import { displayPath } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import { discoverToUse, type Found, requireConfiguration } from "../found.ts";
import { type Io, interruptible, isAgreed, type Printer, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { providersOf } from "../providers-found.ts";
import { ago } from "../run-words.ts";
import { sayNotice } from "../say.ts";
import { notAgreed } from "../told.ts";
import { entriesOf, keyFacts, OWNER, sayKey, vaultOf } from "../vault.ts";
import { printHanging } from "../wrap.ts";

/** Who is signed in where. */
export async function listSignedIn({ io, options }: Context<object>): Promise<number> {
  const found = await discoverToUse(io, options);
  requireConfiguration(io, found);
  const vault = vaultOf(found);
  const entries = signedInOf(entriesOf(vault), found);
  const facts = keyFacts(vault, found);
  if (options.json) printJson(io.stdout, { signedIn: entries, vault: facts });
  else {
    printEntries(printer(io.stdout, io.env), entries);
    const error = printer(io.stderr, io.env);
    if (facts.problem !== null) sayNotice(error, error.red("✗"), facts.problem, "");
    else if (entries.length === 0) await sayNobody(io, found);
    else if (facts.key)
      printHanging(error, "", [`kept in ${displayPath(facts.file, found.around)}, ${sayKey(facts)}`], {
        indent: 0,
        paint: error.dim,
      });
  }
  return facts.problem === null ? EXIT.fine : EXIT.findings;
}

interface SignedIn extends VaultEntry {
  /** Whether it is the one of several that is used where none is named: the last. */
  isTaken: boolean;
  /** Whether it was signed in where its provider is reached now; not known where nobody serves it. */
  isReached: boolean | null;
}

function signedInOf(entries: readonly VaultEntry[], found: Found): SignedIn[] {
  const providers = providersOf(found);
  const factsOf = (entry: VaultEntry) => {
    const serving = providers.filter(({ namespace }) => namespace === entry.namespace);
    const isReached = serving.length === 0 ? null : serving.some(({ origin }) => isAt(entry, origin));
    const rivals = entries.filter((one) => isOf(one, entry.namespace, { user: entry.user }) && isAt(one, entry.origin));
    const last = rivals.reduce((one, next) => (one.at > next.at ? one : next));
    return { isTaken: isReached !== false && rivals.length > 1 && last === entry, isReached };
  };
  return entries.map((entry) => ({ ...entry, ...factsOf(entry) })).sort((a, b) => byText(placeOf(a), placeOf(b)));
}

function placeOf({ namespace, user, account }: VaultEntry): string {
  return JSON.stringify([namespace, user, account]);
}

function printEntries(out: Printer, entries: readonly SignedIn[]): void {
  const names = entries.map(({ namespace }) => oneLine(namespace, 40));
  const accounts = entries.map(({ account }) => oneLine(account, 60));
  const widest = (texts: readonly string[]) => Math.max(0, ...texts.map(({ length }) => length));
  for (const [index, entry] of entries.entries()) {
    const { user, scopes, at, expiresAt, origin, isTaken, isReached } = entry;
    const isOver = expiresAt !== undefined && Date.parse(expiresAt) <= Date.now();
    const details = [
      ...(user === OWNER ? [] : [`for ${oneLine(user, 60)}`]),
      ...(scopes.length > 0 ? [oneLine(scopes.join(", "), 120)] : []),
      `since ${at.slice(0, 10)}`,
      ...(expiresAt === undefined || isOver ? [] : [`until ${expiresAt.slice(0, 16).replace("T", " ")}`]),
      ...(isTaken ? ["taken unless --account says another"] : []),
    ].join(" · ");
    const before = out.text`${out.bold((names[index] ?? "").padEnd(widest(names)))}  ${(accounts[index] ?? "").padEnd(widest(accounts))}  `;
    const indent = widest(names) + widest(accounts) + 4;
    printHanging(out, before, [details], { indent, paint: out.dim });
    if (isOver) out.line`  ${out.yellow(`expired ${ago(expiresAt)}: renewed when next used, or sign in again`)}`;
    if (isReached === false) {
      const said = `signed in ${origin === undefined ? "elsewhere" : `at ${oneLine(origin, 100)}`}, not where it is reached now`;
      printHanging(out, "  ", [said], { indent: 2, paint: out.yellow });
    }
  }
}

async function sayNobody(io: Io, found: Found): Promise<void> {
  const out = printer(io.stderr, io.env);
  const all = providersOf(found);
  const asked = await interruptible(io, (signal) => Promise.all(all.map((provider) => signsIn(provider, signal))));
  const names = [...new Set(all.filter((_, index) => asked[index] !== false).map(({ namespace }) => namespace))];
  out.line`nobody is signed in anywhere`;
  if (all.length === 0)
    printHanging(
      out,
      "  ",
      ["nobody serves capabilities here either: [capabilities.providers.NAME] in config.toml says who does"],
      { indent: 2 },
    );
  else if (names.length === 0) out.line`  nobody has to be: who serves capabilities here signs nobody in`;
  else
    out.line`  to sign in: ${out.cyan(`skillet auth login ${names.length === 1 ? names[0] : "NAME"}`)}${names.length === 1 ? "" : `; there are: ${names.join(", ")}`}`;
}

/** Removes what was kept of a sign-in. */
export async function revoke({ io, options, args }: Context<{ yes?: boolean }>): Promise<number> {
  const [namespace = "", account] = args;
  const found = await discoverToUse(io, options);
  requireConfiguration(io, found);
  const { vault, audit } = found.capabilities;
  const meant = vault.list().filter((entry) => isOf(entry, namespace, { account }));
  if (meant.length === 0) throw noneKept(namespace, account, vault.list());
  const whose = [...new Set(meant.map((entry) => entry.account))].sort(byText).map((one) => oneLine(one, 100));
  if (!options.yes && !(await isAgreed(io, `Remove the sign-in of ${whose.join(", ")} at ${namespace}?`))) {
    throw notAgreed(io, "not removed", "if it is meant, say --yes");
  }
  const removed = vault.remove(namespace, { account });
  audit.add({
    run: "",
    skill: "",
    source: "",
    method: "auth.revoke",
    capability: namespace,
    outcome: "ok",
    count: removed,
  });
  if (options.json) printJson(io.stdout, { namespace, accounts: whose, removed });
  else {
    const out = printer(io.stdout, io.env);
    out.line`${out.green("✓")} signed out of ${namespace}: ${whose.join(", ")} (${count(removed, "credential")} removed)`;
    out.line`  what was removed holds until it is revoked at ${namespace} too: do that there, if somebody may have it`;
  }
  return EXIT.fine;
}

function noneKept(namespace: string, account: string | undefined, entries: readonly VaultEntry[]): SkillError {
  const there = [...new Set(entries.map((entry) => `${entry.namespace} ${entry.account}`))].sort(byText);
  const who = account === undefined ? "Nobody" : `'${oneLine(account, 100)}'`;
  return new SkillError("not-found", {
    message: `${who} is ${account === undefined ? "" : "not "}signed in to '${oneLine(namespace, 60)}'`,
    fix: there.length === 0 ? "nobody is signed in anywhere" : `there are: ${there.slice(0, 10).join(", ")}`,
  });
}
