import { existsSync } from "node:fs";
import type { Host } from "../config/host.ts";
import type { ProviderSettings } from "../config/limits.ts";
import { DEFAULT_SETTINGS, getSettingsRevision, resolveReference, type Settings } from "../config/settings.ts";
import { formatFix, getErrorMessage, type Problem, SkillError } from "../errors/problem.ts";
import { type Caller, formatPersonKey } from "../host/approval.ts";
import type { Audit, Capabilities, CapabilityProvider, ProviderHealth, Vault } from "../host/capability-contract.ts";
import type { Skill } from "../skill/skill.ts";
import { omitUndefined } from "../util/objects.ts";
import { createRedactor } from "../util/redact.ts";
import { getSkilletHome, getUserHome } from "../util/system.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";
import { createAuditLog } from "./audit-log.ts";
import { formatOtherAccounts, getGithubOrigin, matchesAccount, matchesOrigin } from "./credential-filter.ts";
import { createVault } from "./credential-vault.ts";
import { clampProviderSeconds, withProviderTimeout } from "./provider-contract.ts";

export interface CapabilityOptions extends Partial<Pick<Host, "settings" | "home" | "env">> {
  /** The embedding program's own providers. They override those of the configuration. */
  providers?: readonly CapabilityProvider[];
  /** Decides if a skill is granted a capability. Overrides the configuration. */
  isGranted?(id: string, skill: Skill): boolean;
  /** Decides if a caller may use a capability. Overrides the configuration, whose default is private chats. */
  isVisible?(id: string, caller: Caller | undefined): boolean;
  vault?: Vault;
  audit?: Audit;
}

/** Creates the capabilities of the configuration and the embedding program. No provider is started before its first use. */
export function createCapabilities(options: CapabilityOptions = {}): Capabilities {
  const { settings = DEFAULT_SETTINGS, env = process.env, home = getSkilletHome(env) } = options;
  const own = new Map((options.providers ?? []).map((provider) => [provider.namespace, provider]));
  let wirings: ProviderWirings | undefined;
  // The settings may follow their files: a revocation applies at the next call.
  const now = () => {
    const revision = getSettingsRevision(settings);
    if (wirings?.settings !== revision) wirings = wireProviders(revision, { home, env }, wirings);
    return wirings;
  };
  const wiredFor = (id: string, skill?: Skill): WiredProvider | undefined => {
    const { general, ofSkills } = now();
    const namespace = getCapabilityNamespace(id);
    const mine = skill && ofSkills.get(skill.name);
    if (mine?.provider.namespace === namespace) return mine;
    return general.get(namespace) ?? [...ofSkills.values()].find(({ provider }) => provider.namespace === namespace);
  };
  let audit: Audit | undefined = options.audit;
  let opened: { passphraseFile: string | undefined; vault: Vault } | undefined;
  return {
    findProvider: (id, skill) => own.get(getCapabilityNamespace(id)) ?? wiredFor(id, skill)?.provider,
    isVisible(id, caller, skill) {
      if (options.isVisible) return options.isVisible(id, caller);
      if (caller?.chatType === undefined) return false;
      const { chatTypes = DEFAULT_CHAT_TYPES, allowChatIds = [] } = wiredFor(id, skill)?.settings ?? {};
      if (!own.has(getCapabilityNamespace(id)) && !wiredFor(id, skill)) return false;
      const isChat = allowChatIds.length === 0 || allowChatIds.includes(caller.chatId ?? "");
      return chatTypes.includes(caller.chatType) && isChat;
    },
    isGranted: options.isGranted ?? ((id, skill) => isCapabilityGranted(id, skill, now().settings)),
    providers: () => {
      const { general, ofSkills } = now();
      return [...own.values(), ...[...general.values(), ...ofSkills.values()].map(({ provider }) => provider)];
    },
    get quota() {
      const { calls, changes } = now().settings.capabilities;
      return { calls, changes };
    },
    get vault() {
      if (options.vault) return options.vault;
      const { passphraseFile } = now().settings.capabilities;
      if (opened === undefined || opened.passphraseFile !== passphraseFile)
        opened = { passphraseFile, vault: createVault(home, { env, ...omitUndefined({ passphraseFile }) }) };
      return opened.vault;
    },
    get audit() {
      audit ??= createAuditLog(home);
      return audit;
    },
  };
}

/** The providers of one revision of the settings. */
interface ProviderWirings {
  settings: Settings;
  /** By namespace. */
  general: ReadonlyMap<string, WiredProvider>;
  /** By the name of the skill whose table configures it. */
  ofSkills: ReadonlyMap<string, WiredProvider>;
}

/** Wires every provider. A provider whose settings are unchanged since `before` stays the same object, and stays open. */
function wireProviders(
  settings: Settings,
  environment: ProviderEnvironment,
  before?: ProviderWirings,
): ProviderWirings {
  const known = before ? [...before.general.values(), ...before.ofSkills.values()] : [];
  const wire = (namespace: string, wanted: ProviderSettings): WiredProvider => {
    const { isDeepStrictEqual } = process.getBuiltinModule("node:util"); // Importing it loads far more than this.
    const isSame = ({ provider, settings }: WiredProvider) =>
      provider.namespace === namespace && isDeepStrictEqual(settings, wanted);
    return known.find(isSame) ?? wireProvider(namespace, wanted, environment);
  };
  const ofSkills = new Map<string, WiredProvider>();
  for (const [name, { provider: own }] of settings.skills) {
    if (!own || own.enabled === false) continue;
    const namespace = own.namespace ?? name;
    // Precedence: the general table, then the skill's own table, then a preset.
    const table = settings.providers.get(namespace) ?? {};
    const whole = { ...getProviderPreset(namespace)?.settings, ...omitUndefined(own), ...omitUndefined(table) };
    if (whole.enabled !== false) ofSkills.set(name, wire(namespace, whole));
  }
  const owned = new Set(Array.from(ofSkills.values(), ({ provider }) => provider.namespace));
  const general = new Map<string, WiredProvider>();
  for (const [namespace, table] of listProviderTables(settings, owned)) {
    if (table.enabled !== false) general.set(namespace, wire(namespace, table));
  }
  return { settings, general, ofSkills };
}

const DEFAULT_CHAT_TYPES = ["private"];
/** The `from` of providers that are part of skillet. */
export const BUILT_IN_PROVIDER = "built in";

export function getCapabilityNamespace(id: string): string {
  return id.split(".")[0] ?? id;
}

/**
 * Lists the provider table of each namespace; a preset is the fallback of each key. If a skill's own table configures its provider, the
 * preset is not added as well: users would sign in to the wrong one.
 */
function* listProviderTables(
  settings: Host["settings"],
  owned: ReadonlySet<string>,
): Generator<[string, ProviderSettings]> {
  const names = new Set([...settings.providers.keys(), ...Object.keys(PROVIDER_PRESETS)]);
  for (const name of names) {
    const table = settings.providers.get(name);
    const preset = getProviderPreset(name);
    if (!table && (owned.has(name) || !isEnabledByUser(settings, preset?.skill ?? ""))) continue;
    yield [table?.namespace ?? name, { ...preset?.settings, ...omitUndefined(table ?? {}) }];
  }
}

/** Granted if the skill's list names the capability or its namespace, its own table configures the provider, or it is the bundled skill of an enabled preset. */
function isCapabilityGranted(id: string, { name, origin }: Skill, settings: Host["settings"]): boolean {
  const table = settings.skills.get(name);
  if (!table) return false;
  if (
    table.capabilities?.some(
      (pattern) => pattern === id || (pattern.endsWith(".*") && id.startsWith(pattern.slice(0, -1))),
    )
  )
    return true;
  const namespace = getCapabilityNamespace(id);
  if (table.provider && table.provider.enabled !== false && (table.provider.namespace ?? name) === namespace)
    return true;
  return origin.scope === "bundled" && isEnabledByUser(settings, name) && getProviderPreset(namespace)?.skill === name;
}

/** Only the user counts: a workspace cannot grant the user's accounts to a skill, nor start programs. */
function isEnabledByUser({ skills }: Host["settings"], name: string): boolean {
  const { enabled, enabledBy } = skills.get(name) ?? {};
  return enabled === true && enabledBy !== "workspace";
}

interface WiredProvider {
  provider: CapabilityProvider;
  settings: ProviderSettings;
}

interface ProviderEnvironment {
  home: string;
  env: Readonly<Record<string, string | undefined>>;
}

/** Creates a provider that is opened on first use. */
function wireProvider(namespace: string, settings: ProviderSettings, environment: ProviderEnvironment): WiredProvider {
  const { command } = settings;
  const preset = getProviderPreset(namespace);
  let opened: Promise<CapabilityProvider> | undefined;
  const open = () => {
    opened ??= createConfiguredProvider(namespace, settings, environment);
    return opened;
  };
  const provider: CapabilityProvider = {
    namespace,
    from: command?.join(" ") ?? (preset?.open ? BUILT_IN_PROVIDER : "no provider"),
    ...omitUndefined({ origin: command?.join(" ") ?? preset?.getOrigin?.(settings) }),
    seconds: clampProviderSeconds(settings.seconds),
    describe: async (options) => (await open()).describe(options),
    invoke: async (call, options) => (await open()).invoke(call, options),
    health: async (options) => {
      const steps = omitUndefined({ steps: preset?.steps });
      try {
        const health = await (await open()).health(options);
        return health.isReady || health.steps ? health : { ...health, ...steps };
      } catch (error) {
        if (!preset) throw error;
        return { isReady: false, message: getErrorMessage(error), ...steps };
      }
    },
    auth: {
      begin: async (request, options) => (await requireProviderAuth(open())).begin(request, options),
      complete: async (answer, options) => (await requireProviderAuth(open())).complete(answer, options),
      poll: async (answer, options) => (await requireProviderAuth(open())).poll?.(answer, options),
    },
  };
  return { provider, settings };
}

async function requireProviderAuth(opening: Promise<CapabilityProvider>) {
  const { auth, namespace } = await opening;
  if (auth) return auth;
  throw new SkillError("denied", {
    message: `'${namespace}' has no sign-in`,
    fix: "its provider needs no sign-in, or handles it outside skillet",
  });
}

async function createConfiguredProvider(
  namespace: string,
  settings: ProviderSettings,
  environment: ProviderEnvironment,
): Promise<CapabilityProvider> {
  const { command, seconds } = settings;
  const preset = getProviderPreset(namespace);
  if (command === undefined) {
    if (preset?.open) return preset.open(settings);
    throw new SkillError("provider-missing", {
      message: `No provider for '${namespace}': it has no command`,
      fix: `name the program: command under [capabilities.providers.${namespace}] in config.toml`,
    });
  }
  const { createCommandProvider } = await import("./command-provider.ts");
  const { home, env } = environment;
  return createCommandProvider({
    ...{ namespace, command, ...omitUndefined({ seconds }) },
    env: createProviderEnv(namespace, settings, environment),
    redact: createProviderRedactor(settings, environment),
    // Never the workspace: a file there could be started instead of the intended program.
    folder: existsSync(home) ? home : getUserHome(env),
  });
}

/** Builds the environment of a program: basic variables and those of its table. No model keys, and no values of skills. */
function createProviderEnv(
  namespace: string,
  { env: variables = new Map() }: ProviderSettings,
  environment: ProviderEnvironment,
): Record<string, string> {
  const passed = Object.entries(environment.env).filter((entry): entry is [string, string] =>
    PROVIDER_VARIABLES.test(entry[0]),
  );
  const values = [...variables].map(([name, value]) => [
    name,
    resolveReference(value, environment, (why) => {
      throw new SkillError("provider-missing", {
        message: `Cannot start provider '${namespace}': ${name}: ${why}`,
        fix: `correct env.${name} under [capabilities.providers.${namespace}] in config.toml`,
      });
    }),
  ]);
  return { ...Object.fromEntries(passed), ...Object.fromEntries(values) };
}

/** Redacts the values of its table: its output is quoted in errors. */
function createProviderRedactor(
  { env: variables = new Map<string, string>() }: ProviderSettings,
  environment: ProviderEnvironment,
): (text: string) => string {
  const values = [...variables].map(([name, value]): [string, string] => [
    name,
    resolveReference(value, environment, () => "" as never),
  ]);
  return createRedactor(new Map(values.filter(([, value]) => value !== ""))).redact;
}

const PROVIDER_VARIABLES =
  /^(?:PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_\w+|TZ|TMPDIR|XDG_\w+|DBUS_SESSION_BUS_ADDRESS|SKILLET_HOME)$/;

/** The defaults of a well-known provider. The configuration overrides them. */
interface ProviderPreset {
  /** The bundled skill that enables it and is granted its capabilities. */
  skill: string;
  settings: ProviderSettings;
  /** Creates the built-in provider, if no program serves it. */
  open?(settings: ProviderSettings): Promise<CapabilityProvider>;
  /** Returns the URL of the built-in provider's system. Contract: the origin of what `open` opens. */
  getOrigin?(settings: ProviderSettings): string;
  /** The setup steps shown while the provider is not ready. */
  steps: readonly string[];
}

/** One row per provider. */
const PROVIDER_PRESETS: Readonly<Record<string, ProviderPreset>> = {
  gog: {
    skill: "gog",
    settings: { command: ["gogcli", "bridge"] },
    steps: [
      "install a program called gogcli in your PATH that serves gog.email and gog.calendar (see docs/providers.md for the protocol)",
      "or configure another one: skillet config set capabilities.providers.gog.command /path/to/program,argument",
      "then sign in: skillet auth login gog",
    ],
  },
  github: {
    skill: "github",
    settings: {},
    getOrigin: getGithubOrigin,
    open: async ({ baseUrl, clientId, seconds }) => {
      const { createGithubProvider } = await import("./github/github-provider.ts");
      return createGithubProvider(omitUndefined({ baseUrl, clientId, seconds }));
    },
    steps: ["sign in: skillet auth login github"],
  },
  ports: {
    skill: "ports",
    settings: {},
    open: async () => {
      const { createPortsProvider } = await import("./ports-provider.ts");
      return createPortsProvider();
    },
    steps: [],
  },
};

/** Returns the preset of a namespace, if there is one. */
export function getProviderPreset(namespace: string): ProviderPreset | undefined {
  return Object.hasOwn(PROVIDER_PRESETS, namespace) ? PROVIDER_PRESETS[namespace] : undefined;
}

/** Returns a problem for each provider that cannot serve the skill now, with its setup steps. */
export async function findUnreadyProviders(
  capabilities: Capabilities,
  skill: Skill,
  { caller, signal }: { caller: Caller | undefined; signal: AbortSignal },
): Promise<Problem[]> {
  const providers = new Set(skill.manifest.capabilities.flatMap((id) => capabilities.findProvider(id, skill) ?? []));
  const user = formatPersonKey(caller);
  const checks = [...providers].map((provider) => findHealthProblems(provider, capabilities, { skill, user, signal }));
  return (await Promise.all(checks)).flat();
}

/** Checks if a provider can serve now. Contract: resolves, within its timeout. */
export async function checkProviderHealth(
  provider: CapabilityProvider,
  { vault }: Pick<Capabilities, "vault">,
  { user, signal }: { user: string; signal: AbortSignal },
): Promise<ProviderHealth> {
  try {
    const { origin } = provider;
    const entries = (await vault.list()).filter((entry) => matchesAccount(entry, provider.namespace, { user }));
    const isSignedIn = entries.some((entry) => matchesOrigin(entry, origin));
    const health = await callWithShortTimeout(provider, signal, (bounded) =>
      provider.health({ signal: bounded, isSignedIn }),
    );
    if (health.isReady || isSignedIn || health.message === undefined) return health;
    return { ...health, message: `${health.message.replace(/\.$/, "")}${formatOtherAccounts(entries, origin)}` };
  } catch (error) {
    const fix = error instanceof SkillError ? formatFix(error) : "";
    return { isReady: false, message: getErrorMessage(error), ...(fix === "" ? {} : { steps: [fix] }) };
  }
}

/** Returns true if users can sign in to a provider, undefined if its program does not answer. Contract: resolves, within its timeout. */
export async function canSignIn(provider: CapabilityProvider, signal: AbortSignal): Promise<boolean | undefined> {
  if (!provider.auth) return false;
  try {
    return (await callWithShortTimeout(provider, signal, (bounded) => provider.describe({ signal: bounded }))).hasAuth;
  } catch {
    return undefined; // Its health check reports the reason.
  }
}

/** Calls a provider while a user waits, before a run or for a status, so with a shorter timeout. */
export function callWithShortTimeout<T>(
  { namespace, seconds }: CapabilityProvider,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return withProviderTimeout(work, { namespace, seconds: Math.min(seconds, MAX_HEALTH_SECONDS), signal });
}

const MAX_HEALTH_SECONDS = 10;

async function findHealthProblems(
  provider: CapabilityProvider,
  capabilities: Capabilities,
  { skill, user, signal }: { skill: Skill; user: string; signal: AbortSignal },
): Promise<Problem[]> {
  const {
    isReady,
    message = "it is not ready",
    steps = [],
  } = await checkProviderHealth(provider, capabilities, { user, signal });
  if (isReady) return [];
  const numbered = steps.length > 1 ? steps.map((step, index) => `${index + 1}. ${step}`) : steps;
  return [
    {
      code: "capability-not-ready",
      message: `Skill '${skill.name}' needs '${provider.namespace}', which is not ready: ${sanitizeLine(message, 300)}`,
      fix: numbered.map((step) => sanitizeLine(step, 300)).join("\n"),
      ...(numbered.length === 0 ? { commands: [`skillet capability list ${provider.namespace}`] } : {}),
    },
  ];
}
