import { existsSync } from "node:fs";
import { resolveReference } from "../config/config-file.ts";
import type { Host } from "../config/host.ts";
import type { ProviderSettings } from "../config/limits.ts";
import { DEFAULT_SETTINGS, getSettingsRevision, type Settings } from "../config/settings.ts";
import { getErrorMessage, type Problem, SkillError } from "../errors/problem.ts";
import type { Audit, Capabilities, CapabilityProvider, ProviderHealth, Vault } from "../host/capability-contract.ts";
import type { Caller } from "../host/host-policy.ts";
import type { Skill } from "../skill/skill.ts";
import { omitUndefined } from "../util/objects.ts";
import { createRedactor } from "../util/redact.ts";
import { getSkilletHome, getUserHome } from "../util/system.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";
import { createAuditLog } from "./audit-log.ts";
import { formatOtherAccounts, matchesAccount, matchesOrigin } from "./credential-filter.ts";
import { createVault } from "./credential-vault.ts";
import { getGithubOrigin } from "./github/github-api.ts";
import { clampProviderSeconds, withProviderTimeout } from "./provider-contract.ts";

export interface CapabilityOptions extends Partial<Pick<Host, "settings" | "home" | "env">> {
  /** Providers of the embedding program's own, over those of the configuration. */
  providers?: readonly CapabilityProvider[];
  /** Whether a skill is given a capability, in place of what the configuration says. */
  isGranted?(id: string, skill: Skill): boolean;
  /** Whether a capability is there for a caller, in place of what the configuration says: private chats. */
  isVisible?(id: string, caller: Caller | undefined): boolean;
  vault?: Vault;
  audit?: Audit;
}

/** The capabilities that the configuration wires, and the embedding program. Nothing is started before it is asked. */
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
    providerOf: (id, skill) => own.get(getCapabilityNamespace(id)) ?? wiredFor(id, skill)?.provider,
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
  /** By the skill whose own table says it. */
  ofSkills: ReadonlyMap<string, WiredProvider>;
}

/** Wires every provider. One whose settings did not change since `before` stays the same object, and stays open. */
function wireProviders(settings: Settings, place: ProviderEnvironment, before?: ProviderWirings): ProviderWirings {
  const known = before ? [...before.general.values(), ...before.ofSkills.values()] : [];
  const wire = (namespace: string, wanted: ProviderSettings): WiredProvider => {
    const { isDeepStrictEqual } = process.getBuiltinModule("node:util"); // Importing it loads far more than this.
    const isSame = ({ provider, settings }: WiredProvider) =>
      provider.namespace === namespace && isDeepStrictEqual(settings, wanted);
    return known.find(isSame) ?? wireProvider(namespace, wanted, place);
  };
  const ofSkills = new Map<string, WiredProvider>();
  for (const [name, { provider: said }] of settings.skills) {
    if (!said || said.enabled === false) continue;
    const namespace = said.namespace ?? name;
    // What the general table says of it too holds over its own, and both over a preset.
    const table = settings.providers.get(namespace) ?? {};
    const whole = { ...getProviderPreset(namespace)?.settings, ...omitUndefined(said), ...omitUndefined(table) };
    if (whole.enabled !== false) ofSkills.set(name, wire(namespace, whole));
  }
  const owned = new Set(Array.from(ofSkills.values(), ({ provider }) => provider.namespace));
  const general = new Map<string, WiredProvider>();
  for (const [namespace, said] of listProviderTables(settings, owned)) {
    if (said.enabled !== false) general.set(namespace, wire(namespace, said));
  }
  return { settings, general, ofSkills };
}

const DEFAULT_CHAT_TYPES = ["private"];
/** Who serves what no program of the user's does. */
export const BUILT_IN_PROVIDER = "built in";

export function getCapabilityNamespace(id: string): string {
  return id.split(".")[0] ?? id;
}

/**
 * What the configuration says of each namespace: a preset's word first, which any other stands over. Where a skill's own table says who
 * serves it, no preset does by itself beside that one: it would be the one that somebody signs in to.
 */
function* listProviderTables(
  settings: Host["settings"],
  owned: ReadonlySet<string>,
): Generator<[string, ProviderSettings]> {
  const names = new Set([...settings.providers.keys(), ...Object.keys(PROVIDER_PRESETS)]);
  for (const name of names) {
    const said = settings.providers.get(name);
    const preset = getProviderPreset(name);
    if (!said && (owned.has(name) || !isEnabledByUser(settings, preset?.skill ?? ""))) continue;
    yield [said?.namespace ?? name, { ...preset?.settings, ...omitUndefined(said ?? {}) }];
  }
}

/** Its list names it, or all of its namespace; or its own table wires who serves it; or it is the shipped skill of a preset that is switched on. */
function isCapabilityGranted(id: string, { name, origin }: Skill, settings: Host["settings"]): boolean {
  const said = settings.skills.get(name);
  if (!said) return false;
  if (said.capabilities?.some((given) => given === id || (given.endsWith(".*") && id.startsWith(given.slice(0, -1)))))
    return true;
  const namespace = getCapabilityNamespace(id);
  if (said.provider && said.provider.enabled !== false && (said.provider.namespace ?? name) === namespace) return true;
  return origin.scope === "bundled" && isEnabledByUser(settings, name) && getProviderPreset(namespace)?.skill === name;
}

/** By the user: whoever made a workspace gives nothing of theirs to anybody, and starts no program. */
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

/** A provider that is only opened when it is first asked. */
function wireProvider(namespace: string, settings: ProviderSettings, place: ProviderEnvironment): WiredProvider {
  const { command } = settings;
  const preset = getProviderPreset(namespace);
  let opened: Promise<CapabilityProvider> | undefined;
  const open = () => {
    opened ??= createConfiguredProvider(namespace, settings, place);
    return opened;
  };
  const provider: CapabilityProvider = {
    namespace,
    from: command?.join(" ") ?? (preset?.open ? BUILT_IN_PROVIDER : "nobody"),
    ...omitUndefined({ origin: command?.join(" ") ?? preset?.originOf?.(settings) }),
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
    message: `Nobody signs in to '${namespace}'`,
    fix: "its provider asks for nobody, or it is done elsewhere",
  });
}

async function createConfiguredProvider(
  namespace: string,
  settings: ProviderSettings,
  place: ProviderEnvironment,
): Promise<CapabilityProvider> {
  const { command, seconds } = settings;
  const preset = getProviderPreset(namespace);
  if (command === undefined) {
    if (preset?.open) return preset.open(settings);
    throw new SkillError("provider-missing", {
      message: `Nobody serves '${namespace}': it has no command`,
      fix: `name the program: command under [capabilities.providers.${namespace}] in config.toml`,
    });
  }
  const { createCommandProvider } = await import("./command-provider.ts");
  const { home, env } = place;
  return createCommandProvider({
    ...{ namespace, command, ...omitUndefined({ seconds }) },
    env: createProviderEnv(namespace, settings, place),
    hide: createProviderRedactor(settings, place),
    // Never the workspace: what lies there could be started in place of what was meant.
    folder: existsSync(home) ? home : getUserHome(env),
  });
}

/** What a program needs to find itself and its own things, and what the operator gives it. None of the models' keys, and no skill's values. */
function createProviderEnv(
  namespace: string,
  { env: given = new Map() }: ProviderSettings,
  place: ProviderEnvironment,
): Record<string, string> {
  const passed = Object.entries(place.env).filter((entry): entry is [string, string] =>
    PROVIDER_VARIABLES.test(entry[0]),
  );
  const values = [...given].map(([name, written]) => [
    name,
    resolveReference(written, place, (why) => {
      throw new SkillError("provider-missing", {
        message: `Provider '${namespace}' cannot be started: ${name}: ${why}`,
        fix: `correct env.${name} under [capabilities.providers.${namespace}] in config.toml`,
      });
    }),
  ]);
  return { ...Object.fromEntries(passed), ...Object.fromEntries(values) };
}

/** What its program prints is quoted when it fails. */
function createProviderRedactor(
  { env: given = new Map<string, string>() }: ProviderSettings,
  place: ProviderEnvironment,
): (text: string) => string {
  const values = [...given].map(([name, written]): [string, string] => [
    name,
    resolveReference(written, place, () => "" as never),
  ]);
  return createRedactor(new Map(values.filter(([, value]) => value !== ""))).text;
}

const PROVIDER_VARIABLES =
  /^(?:PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_\w+|TZ|TMPDIR|XDG_\w+|DBUS_SESSION_BUS_ADDRESS|SKILLET_HOME)$/;

/** A provider that is known by its name: what holds for it where the configuration says nothing else. */
interface ProviderPreset {
  /** The shipped skill that switches it on, and is given what it serves. */
  skill: string;
  settings: ProviderSettings;
  /** One of ours, in place of a program. */
  open?(settings: ProviderSettings): Promise<CapabilityProvider>;
  /** Where the system behind that one is. Contract: the origin of what `open` opens. */
  originOf?(settings: ProviderSettings): string;
  /** What somebody has to do whose provider is not there, one step each. */
  steps: readonly string[];
}

/** One row a provider. */
const PROVIDER_PRESETS: Readonly<Record<string, ProviderPreset>> = {
  gog: {
    skill: "gog",
    settings: { command: ["gogcli", "bridge"] },
    steps: [
      "put a program called gogcli into your PATH that serves gog.email and gog.calendar (docs/providers.md says how it is asked)",
      "or name another one: skillet config set capabilities.providers.gog.command /path/to/program,argument",
      "then sign in: skillet auth login gog",
    ],
  },
  github: {
    skill: "github",
    settings: {},
    originOf: getGithubOrigin,
    open: async ({ baseUrl, clientId, seconds }) => {
      const { createGithubProvider } = await import("./github/github-provider.ts");
      return createGithubProvider(omitUndefined({ baseUrl, clientId, seconds }));
    },
    steps: ["sign in: skillet auth login github"],
  },
};

/** What is known of a namespace by its name. */
export function getProviderPreset(namespace: string): ProviderPreset | undefined {
  return Object.hasOwn(PROVIDER_PRESETS, namespace) ? PROVIDER_PRESETS[namespace] : undefined;
}

/** What keeps providers of a skill's capabilities from serving it now, each with the steps that set it up. */
export async function findUnreadyProviders(
  capabilities: Capabilities,
  skill: Skill,
  { caller, signal }: { caller: Caller | undefined; signal: AbortSignal },
): Promise<Problem[]> {
  const providers = new Set(skill.manifest.capabilities.flatMap((id) => capabilities.providerOf(id, skill) ?? []));
  const user = caller?.userId ?? "";
  const asked = [...providers].map((provider) => findHealthProblems(provider, capabilities, { skill, user, signal }));
  return (await Promise.all(asked)).flat();
}

/** Whether one can serve now. Contract: resolves, in its time. */
export async function checkProviderHealth(
  provider: CapabilityProvider,
  { vault }: Pick<Capabilities, "vault">,
  { user, signal }: { user: string; signal: AbortSignal },
): Promise<ProviderHealth> {
  try {
    const { origin } = provider;
    const kept = vault.list().filter((entry) => matchesAccount(entry, provider.namespace, { user }));
    const isSignedIn = kept.some((entry) => matchesOrigin(entry, origin));
    const health = await callWithShortTimeout(provider, signal, (bounded) =>
      provider.health({ signal: bounded, isSignedIn }),
    );
    if (health.isReady || isSignedIn || health.message === undefined) return health;
    return { ...health, message: `${health.message.replace(/\.$/, "")}${formatOtherAccounts(kept, origin)}` };
  } catch (error) {
    const { fix } = Object(error) as { fix?: unknown };
    return {
      isReady: false,
      message: getErrorMessage(error),
      ...(typeof fix === "string" && fix !== "" ? { steps: [fix] } : {}),
    };
  }
}

/** Whether somebody can sign in at one: what only a program itself knows is asked. Nothing when it does not say. Contract: resolves, in its time. */
export async function canSignIn(provider: CapabilityProvider, signal: AbortSignal): Promise<boolean | undefined> {
  if (!provider.auth) return false;
  try {
    return (await callWithShortTimeout(provider, signal, (bounded) => provider.describe({ signal: bounded }))).hasAuth;
  } catch {
    return undefined; // Why it does not is told by its health.
  }
}

/** Asks a provider for what somebody waits for: before a run, or for a look. */
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
      message: `Skill '${skill.name}' needs '${provider.namespace}', which cannot serve yet: ${sanitizeLine(message, 300)}`,
      fix:
        numbered.map((step) => sanitizeLine(step, 300)).join("\n") ||
        `see \`skillet capability list ${provider.namespace}\``,
    },
  ];
}
