import { canSignIn } from "../../capabilities/configured-capabilities.ts";
import { matchesAccount, matchesOrigin } from "../../capabilities/credential-filter.ts";
import { SkillError } from "../../errors/problem.ts";
import type { VaultEntry } from "../../host/capability-contract.ts";
import { formatDisplayPath } from "../../skill/source/locations.ts";
import { compareText, formatCount, truncateLine } from "../../util/text.ts";
import {
  findProviders,
  formatVaultKey,
  listVaultEntries,
  openCommandVault,
  readVaultKeyFacts,
  TERMINAL_USER,
} from "../capability-providers.ts";
import {
  type CommandContext,
  type CommandDefinition,
  createNotApprovedError,
  EXIT,
  formatExamples,
} from "../command-definition.ts";
import { type CommandHost, discoverWithCapabilities, requireConfiguration } from "../command-host.ts";
import { formatAge } from "../format.ts";
import {
  type CommandIo,
  createPrinter,
  isConfirmed,
  type Printer,
  printHanging,
  printJson,
  printProblem,
  runInterruptible,
} from "../output.ts";

/** `skillet auth` and what stands below it. */
export const authCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("sign in to the systems that capabilities reach, and out of them")
      .addHelpText("after", formatExamples("skillet auth list", "skillet auth login github")),
  commands: {
    list: {
      define: (command) =>
        command
          .description("show who is signed in where, for how long, and where the key of the vault is from; no secret")
          .addHelpText("after", formatExamples("skillet auth list", "skillet auth list --json")),
      run: listSignedIn,
    },
    login: {
      define: (command) =>
        command
          .description("sign in: says what to do, and keeps what you are let in with in the vault")
          .argument("<namespace>", NAMESPACE_HELP)
          .option("-s, --scope <scope...>", "what the sign-in is to be good for; what the provider needs when left out")
          .addHelpText(
            "after",
            "\nA token is asked for without being shown, or piped in.\nIt is never an argument: others could see it.",
          )
          .addHelpText(
            "after",
            formatExamples(
              "skillet auth login github",
              "skillet auth login github < token.txt",
              "skillet auth login gog",
            ),
          ),
      run: async (context) => (await import("./auth-login.ts")).signIn(context),
    },
    revoke: {
      define: (command) =>
        command
          .description("remove what was kept of a sign-in from the vault")
          .argument("<namespace>", NAMESPACE_HELP)
          .argument("[account]", "whose; all of them when left out")
          .option("-y, --yes", "do not ask; needed where there is no terminal")
          .addHelpText(
            "after",
            formatExamples("skillet auth revoke github", "skillet auth revoke gog ada@example.com --yes"),
          ),
      run: revokeSignIn,
    },
    begin: {
      define: (command) =>
        command
          .description("for scripts: begin a sign-in, and print what to do and its flow")
          .argument("<namespace>", NAMESPACE_HELP)
          .option("-s, --scope <scope...>", "what the sign-in is to be good for")
          .addHelpText("after", formatExamples("skillet auth begin github --json | jq -r .flow")),
      run: async (context) => (await import("./auth-login.ts")).beginSignIn(context),
    },
    complete: {
      define: (command) =>
        command
          .description("for scripts: complete a sign-in with what is piped in: the address that it led to, a token")
          .argument("<flow>", "as begin printed it")
          .addHelpText("after", formatExamples("skillet auth complete flow_3f2a… < token.txt")),
      run: async (context) => (await import("./auth-login.ts")).completeSignIn(context),
    },
    poll: {
      define: (command) =>
        command
          .description(
            "for scripts: ask whether a sign-in that ends elsewhere has ended; exits with 5 while it has not",
          )
          .argument("<flow>", "as begin printed it")
          .addHelpText("after", formatExamples("skillet auth poll flow_3f2a…")),
      run: async (context) => (await import("./auth-login.ts")).pollSignIn(context),
    },
  },
};

export const NAMESPACE_HELP = "what the provider serves: the beginning of its capabilities, as in github";

/** Who is signed in where. */
async function listSignedIn({ io, options }: CommandContext<object>): Promise<number> {
  const found = await discoverWithCapabilities(io, options);
  requireConfiguration(io, found);
  const vault = openCommandVault(found);
  const entries = listSignIns(listVaultEntries(vault), found);
  const facts = readVaultKeyFacts(vault, found);
  if (options.json) printJson(io.stdout, { signedIn: entries, vault: facts });
  else {
    printSignIns(createPrinter(io.stdout, io.env), entries);
    const error = createPrinter(io.stderr, io.env);
    if (facts.problem !== null) printProblem(error, error.red("✗"), facts.problem, "");
    else if (entries.length === 0) await printNoSignIns(io, found);
    else if (facts.key)
      printHanging(error, "", [`kept in ${formatDisplayPath(facts.file, found.around)}, ${formatVaultKey(facts)}`], {
        indent: 0,
        paint: error.dim,
      });
  }
  return facts.problem === null ? EXIT.fine : EXIT.findings;
}

interface SignIn extends VaultEntry {
  /** Whether it is the one of several that is used where none is named: the last. */
  isTaken: boolean;
  /** Whether it was signed in where its provider is reached now; not known where nobody serves it. */
  isReached: boolean | null;
}

function listSignIns(entries: readonly VaultEntry[], found: CommandHost): SignIn[] {
  const providers = findProviders(found);
  const factsOf = (entry: VaultEntry) => {
    const serving = providers.filter(({ namespace }) => namespace === entry.namespace);
    const isReached = serving.length === 0 ? null : serving.some(({ origin }) => matchesOrigin(entry, origin));
    const rivals = entries.filter(
      (one) => matchesAccount(one, entry.namespace, { user: entry.user }) && matchesOrigin(one, entry.origin),
    );
    const last = rivals.reduce((one, next) => (one.at > next.at ? one : next));
    return { isTaken: isReached !== false && rivals.length > 1 && last === entry, isReached };
  };
  return entries
    .map((entry) => ({ ...entry, ...factsOf(entry) }))
    .sort((a, b) => compareText(formatAccount(a), formatAccount(b)));
}

function formatAccount({ namespace, user, account }: VaultEntry): string {
  return JSON.stringify([namespace, user, account]);
}

function printSignIns(out: Printer, entries: readonly SignIn[]): void {
  const names = entries.map(({ namespace }) => truncateLine(namespace, 40));
  const accounts = entries.map(({ account }) => truncateLine(account, 60));
  const widest = (texts: readonly string[]) => Math.max(0, ...texts.map(({ length }) => length));
  for (const [index, entry] of entries.entries()) {
    const { user, scopes, at, expiresAt, origin, isTaken, isReached } = entry;
    const isOver = expiresAt !== undefined && Date.parse(expiresAt) <= Date.now();
    const details = [
      ...(user === TERMINAL_USER ? [] : [`for ${truncateLine(user, 60)}`]),
      ...(scopes.length > 0 ? [truncateLine(scopes.join(", "), 120)] : []),
      `since ${at.slice(0, 10)}`,
      ...(expiresAt === undefined || isOver ? [] : [`until ${expiresAt.slice(0, 16).replace("T", " ")}`]),
      ...(isTaken ? ["taken unless --account says another"] : []),
    ].join(" · ");
    const before = out.text`${out.bold((names[index] ?? "").padEnd(widest(names)))}  ${(accounts[index] ?? "").padEnd(widest(accounts))}  `;
    const indent = widest(names) + widest(accounts) + 4;
    printHanging(out, before, [details], { indent, paint: out.dim });
    if (isOver) out.line`  ${out.yellow(`expired ${formatAge(expiresAt)}: renewed when next used, or sign in again`)}`;
    if (isReached === false) {
      const said = `signed in ${origin === undefined ? "elsewhere" : `at ${truncateLine(origin, 100)}`}, not where it is reached now`;
      printHanging(out, "  ", [said], { indent: 2, paint: out.yellow });
    }
  }
}

async function printNoSignIns(io: CommandIo, found: CommandHost): Promise<void> {
  const out = createPrinter(io.stderr, io.env);
  const all = findProviders(found);
  const asked = await runInterruptible(io, (signal) => Promise.all(all.map((provider) => canSignIn(provider, signal))));
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
async function revokeSignIn({ io, options, args }: CommandContext<{ yes?: boolean }>): Promise<number> {
  const [namespace = "", account] = args;
  const found = await discoverWithCapabilities(io, options);
  requireConfiguration(io, found);
  const { vault, audit } = found.capabilities;
  const meant = vault.list().filter((entry) => matchesAccount(entry, namespace, { account }));
  if (meant.length === 0) throw createNoSignInError(namespace, account, vault.list());
  const whose = [...new Set(meant.map((entry) => entry.account))]
    .sort(compareText)
    .map((one) => truncateLine(one, 100));
  if (!options.yes && !(await isConfirmed(io, `Remove the sign-in of ${whose.join(", ")} at ${namespace}?`))) {
    throw createNotApprovedError(io, "not removed", "if it is meant, say --yes");
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
    const out = createPrinter(io.stdout, io.env);
    out.line`${out.green("✓")} signed out of ${namespace}: ${whose.join(", ")} (${formatCount(removed, "credential")} removed)`;
    out.line`  what was removed holds until it is revoked at ${namespace} too: do that there, if somebody may have it`;
  }
  return EXIT.fine;
}

function createNoSignInError(
  namespace: string,
  account: string | undefined,
  entries: readonly VaultEntry[],
): SkillError {
  const there = [...new Set(entries.map((entry) => `${entry.namespace} ${entry.account}`))].sort(compareText);
  const who = account === undefined ? "Nobody" : `'${truncateLine(account, 100)}'`;
  return new SkillError("not-found", {
    message: `${who} is ${account === undefined ? "" : "not "}signed in to '${truncateLine(namespace, 60)}'`,
    fix: there.length === 0 ? "nobody is signed in anywhere" : `there are: ${there.slice(0, 10).join(", ")}`,
  });
}
