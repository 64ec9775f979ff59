import { canSignIn } from "../../capabilities/configured-capabilities.ts";
import { matchesAccount, matchesOrigin } from "../../capabilities/credential-filter.ts";
import { SkillError } from "../../errors/problem.ts";
import { describePersonKey } from "../../host/approval.ts";
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
  type CommandHost,
  createNotApprovedError,
  discoverWithCapabilities,
  EXIT,
  formatExamples,
  requireConfiguration,
} from "../command-context.ts";
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
import { formatAge } from "../run-format.ts";

/** `skillet auth` and its subcommands. */
export const authCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Sign in to the systems that capabilities use")
      .addHelpText("after", formatExamples("skillet auth list", "skillet auth login github")),
  commands: {
    list: {
      define: (command) =>
        command
          .description("List the signed-in accounts and the state of the vault")
          .addHelpText("after", formatExamples("skillet auth list", "skillet auth list --json")),
      run: listSignedIn,
    },
    login: {
      define: (command) =>
        command
          .description("Sign in and store the credentials in the vault")
          .argument("<namespace>", NAMESPACE_HELP)
          .option("-s, --scope <scope...>", "Request these scopes. Defaults to those that the provider needs.")
          .addHelpText(
            "after",
            "\nA token is typed at a hidden prompt, or piped in.\nIt is never an argument, because other users could see it.",
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
          .description("Remove a sign-in from the vault")
          .argument("<namespace>", NAMESPACE_HELP)
          .argument("[account]", "The account. Defaults to all accounts.")
          .option("-y, --yes", "Skip the confirmation, required without a terminal")
          .addHelpText(
            "after",
            formatExamples("skillet auth revoke github", "skillet auth revoke gog ada@example.com --yes"),
          ),
      run: revokeSignIn,
    },
    begin: {
      define: (command) =>
        command
          .description("Start a sign-in and print its steps and flow id, for scripts")
          .argument("<namespace>", NAMESPACE_HELP)
          .option("-s, --scope <scope...>", "Request these scopes")
          .addHelpText("after", formatExamples("skillet auth begin github --json | jq -r .flow")),
      run: async (context) => (await import("./auth-login.ts")).beginSignIn(context),
    },
    complete: {
      define: (command) =>
        command
          .description("Complete a sign-in with the piped token or final address, for scripts")
          .argument("<flow>", "The flow id printed by begin")
          .addHelpText("after", formatExamples("skillet auth complete flow_3f2a… < token.txt")),
      run: async (context) => (await import("./auth-login.ts")).completeSignIn(context),
    },
    poll: {
      define: (command) =>
        command
          .description("Poll a sign-in, with exit code 5 while it is pending, for scripts")
          .argument("<flow>", "The flow id printed by begin")
          .addHelpText("after", formatExamples("skillet auth poll flow_3f2a…")),
      run: async (context) => (await import("./auth-login.ts")).pollSignIn(context),
    },
  },
};

export const NAMESPACE_HELP = "The namespace of a provider: the first part of its capability ids, for example github";

/** Lists the signed-in accounts. */
async function listSignedIn({ io, options }: CommandContext<object>): Promise<number> {
  const found = await discoverWithCapabilities(io, options);
  requireConfiguration(io, found);
  const vault = openCommandVault(found);
  const entries = listSignIns(await listVaultEntries(vault), found);
  const facts = await readVaultKeyFacts(vault, found);
  if (options.json) printJson(io.stdout, { signedIn: entries, vault: facts });
  else {
    printSignIns(createPrinter(io.stdout, io.env), entries);
    const error = createPrinter(io.stderr, io.env);
    if (facts.problem !== null) printProblem(error, error.red("✗"), { message: facts.problem });
    else if (entries.length === 0) await printNoSignIns(io, found);
    else if (facts.key)
      printHanging(error, "", [`stored in ${formatDisplayPath(facts.file, found.around)}, ${formatVaultKey(facts)}`], {
        indent: 0,
        paint: error.dim,
      });
  }
  return facts.problem === null ? EXIT.fine : EXIT.findings;
}

interface SignIn extends VaultEntry {
  /** True for the latest of several accounts, which is used by default. */
  isTaken: boolean;
  /** True if it was made at the provider's current address; null if there is no provider. */
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
      ...(user === TERMINAL_USER ? [] : [`for ${truncateLine(describePersonKey(user), 60)}`]),
      ...(scopes.length > 0 ? [truncateLine(scopes.join(", "), 120)] : []),
      `since ${at.slice(0, 10)}`,
      ...(expiresAt === undefined || isOver ? [] : [`until ${expiresAt.slice(0, 16).replace("T", " ")}`]),
      ...(isTaken ? ["used unless --account names another"] : []),
    ].join(" · ");
    const before = out.text`${out.bold((names[index] ?? "").padEnd(widest(names)))}  ${(accounts[index] ?? "").padEnd(widest(accounts))}  `;
    const indent = widest(names) + widest(accounts) + 4;
    printHanging(out, before, [details], { indent, paint: out.dim });
    if (isOver) out.line`  ${out.yellow(`expired ${formatAge(expiresAt)}: renewed when next used, or sign in again`)}`;
    if (isReached === false) {
      const text = `signed in ${origin === undefined ? "elsewhere" : `at ${truncateLine(origin, 100)}`}, not at the provider's current address`;
      printHanging(out, "  ", [text], { indent: 2, paint: out.yellow });
    }
  }
}

async function printNoSignIns(io: CommandIo, found: CommandHost): Promise<void> {
  const out = createPrinter(io.stderr, io.env);
  const all = findProviders(found);
  const asked = await runInterruptible(io, (signal) => Promise.all(all.map((provider) => canSignIn(provider, signal))));
  const names = [...new Set(all.filter((_, index) => asked[index] !== false).map(({ namespace }) => namespace))];
  out.line`no account is signed in`;
  if (all.length === 0)
    printHanging(
      out,
      "  ",
      ["no capability provider is configured: add [capabilities.providers.NAME] to config.toml"],
      { indent: 2 },
    );
  else if (names.length === 0) out.line`  none is needed: the configured providers have no sign-in`;
  else
    out.line`  to sign in: ${out.cyan(`skillet auth login ${names.length === 1 ? names[0] : "NAME"}`)}${names.length === 1 ? "" : `; providers: ${names.join(", ")}`}`;
}

/** Removes a sign-in from the vault. */
async function revokeSignIn({ io, options, args }: CommandContext<{ yes?: boolean }>): Promise<number> {
  const [namespace = "", account] = args;
  const found = await discoverWithCapabilities(io, options);
  requireConfiguration(io, found);
  const { vault, audit } = found.capabilities;
  const meant = (await vault.list()).filter((entry) => matchesAccount(entry, namespace, { account }));
  if (meant.length === 0) throw createNoSignInError(namespace, account, await vault.list());
  const whose = [...new Set(meant.map((entry) => entry.account))]
    .sort(compareText)
    .map((one) => truncateLine(one, 100));
  if (!options.yes && !(await isConfirmed(io, `Remove the sign-in of ${whose.join(", ")} at ${namespace}?`))) {
    throw createNotApprovedError(io, "not removed", "add --yes to confirm");
  }
  const removed = await vault.remove(namespace, { account });
  await audit.add({
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
    out.line`  the credential stays valid at ${namespace} until you revoke it there: do so if it may have leaked`;
  }
  return EXIT.fine;
}

function createNoSignInError(
  namespace: string,
  account: string | undefined,
  entries: readonly VaultEntry[],
): SkillError {
  const there = [...new Set(entries.map((entry) => `${entry.namespace} ${entry.account}`))].sort(compareText);
  const who = account === undefined ? "No account" : `'${truncateLine(account, 100)}'`;
  return new SkillError("not-found", {
    message: `${who} is ${account === undefined ? "" : "not "}signed in to '${truncateLine(namespace, 60)}'`,
    fix: there.length === 0 ? "no account is signed in" : `signed in: ${there.slice(0, 10).join(", ")}`,
  });
}
