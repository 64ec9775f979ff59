import { existsSync } from "node:fs";
import type { Caller } from "../host/caller.ts";
import type { Audit, Capabilities, CapabilityProvider, Vault } from "../host/capabilities.ts";
import type { ProviderSettings } from "../host/capability-settings.ts";
import { skilletHome, userHome } from "../host/home.ts";
import type { Host } from "../host/host.ts";
import { resolved } from "../host/reference.ts";
import { NO_SETTINGS, revisionOf, type Settings } from "../host/settings.ts";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import { reason } from "../shared/inside.ts";
import { openHiding } from "../shared/redact.ts";
import type { Skill } from "../skill/skill.ts";
import { openAudit } from "./audit.ts";
import { PRESETS, presetOf } from "./presets.ts";
import { secondsOf } from "./provider-error.ts";
import { openVault } from "./vault.ts";

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
export function openCapabilities(options: CapabilityOptions = {}): Capabilities {
  const { settings = NO_SETTINGS, env = process.env, home = skilletHome(env) } = options;
  const own = new Map((options.providers ?? []).map((provider) => [provider.namespace, provider]));
  let wirings: Wirings | undefined;
  // The settings may follow their files: a revocation applies at the next call.
  const now = () => {
    const revision = revisionOf(settings);
    if (wirings?.settings !== revision) wirings = wireAll(revision, { home, env }, wirings);
    return wirings;
  };
  const wiredFor = (id: string, skill?: Skill): Wired | undefined => {
    const { general, ofSkills } = now();
    const namespace = namespaceOf(id);
    const mine = skill && ofSkills.get(skill.name);
    if (mine?.provider.namespace === namespace) return mine;
    return general.get(namespace) ?? [...ofSkills.values()].find(({ provider }) => provider.namespace === namespace);
  };
  let audit: Audit | undefined = options.audit;
  let opened: { passphraseFile: string | undefined; vault: Vault } | undefined;
  return {
    providerOf: (id, skill) => own.get(namespaceOf(id)) ?? wiredFor(id, skill)?.provider,
    isVisible(id, caller, skill) {
      if (options.isVisible) return options.isVisible(id, caller);
      if (caller?.chatType === undefined) return false;
      const { chatTypes = PRIVATE, allowChatIds = [] } = wiredFor(id, skill)?.settings ?? {};
      if (!own.has(namespaceOf(id)) && !wiredFor(id, skill)) return false;
      const isChat = allowChatIds.length === 0 || allowChatIds.includes(caller.chatId ?? "");
      return chatTypes.includes(caller.chatType) && isChat;
    },
    isGranted: options.isGranted ?? ((id, skill) => isGranted(id, skill, now().settings)),
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
        opened = { passphraseFile, vault: openVault(home, { env, ...defined({ passphraseFile }) }) };
      return opened.vault;
    },
    get audit() {
      audit ??= openAudit(home);
      return audit;
    },
  };
}

/** The providers of one revision of the settings. */
interface Wirings {
  settings: Settings;
  /** By namespace. */
  general: ReadonlyMap<string, Wired>;
  /** By the skill whose own table says it. */
  ofSkills: ReadonlyMap<string, Wired>;
}

/** Wires every provider. One whose settings did not change since `before` stays the same object, and stays open. */
function wireAll(settings: Settings, place: Place, before?: Wirings): Wirings {
  const known = before ? [...before.general.values(), ...before.ofSkills.values()] : [];
  const wire = (namespace: string, wanted: ProviderSettings): Wired => {
    const { isDeepStrictEqual } = process.getBuiltinModule("node:util"); // Importing it loads far more than this.
    const isSame = ({ provider, settings }: Wired) =>
      provider.namespace === namespace && isDeepStrictEqual(settings, wanted);
    return known.find(isSame) ?? wiring(namespace, wanted, place);
  };
  const ofSkills = new Map<string, Wired>();
  for (const [name, { provider: said }] of settings.skills) {
    if (!said || said.enabled === false) continue;
    const namespace = said.namespace ?? name;
    // What the general table says of it too holds over its own, and both over a preset.
    const table = settings.providers.get(namespace) ?? {};
    const whole = { ...presetOf(namespace)?.settings, ...defined(said), ...defined(table) };
    if (whole.enabled !== false) ofSkills.set(name, wire(namespace, whole));
  }
  const owned = new Set(Array.from(ofSkills.values(), ({ provider }) => provider.namespace));
  const general = new Map<string, Wired>();
  for (const [namespace, said] of generalTables(settings, owned)) {
    if (said.enabled !== false) general.set(namespace, wire(namespace, said));
  }
  return { settings, general, ofSkills };
}

const PRIVATE = ["private"];
/** Who serves what no program of the user's does. */
export const BUILT_IN = "built in";

export function namespaceOf(id: string): string {
  return id.split(".")[0] ?? id;
}

/**
 * What the configuration says of each namespace: a preset's word first, which any other stands over. Where a skill's own table says who
 * serves it, no preset does by itself beside that one: it would be the one that somebody signs in to.
 */
function* generalTables(settings: Host["settings"], owned: ReadonlySet<string>): Generator<[string, ProviderSettings]> {
  const names = new Set([...settings.providers.keys(), ...Object.keys(PRESETS)]);
  for (const name of names) {
    const said = settings.providers.get(name);
    const preset = presetOf(name);
    if (!said && (owned.has(name) || !isSwitchedOn(settings, preset?.skill ?? ""))) continue;
    yield [said?.namespace ?? name, { ...preset?.settings, ...defined(said ?? {}) }];
  }
}

/** Its list names it, or all of its namespace; or its own table wires who serves it; or it is the shipped skill of a preset that is switched on. */
function isGranted(id: string, { name, origin }: Skill, settings: Host["settings"]): boolean {
  const said = settings.skills.get(name);
  if (!said) return false;
  if (said.capabilities?.some((given) => given === id || (given.endsWith(".*") && id.startsWith(given.slice(0, -1)))))
    return true;
  const namespace = namespaceOf(id);
  if (said.provider && said.provider.enabled !== false && (said.provider.namespace ?? name) === namespace) return true;
  return origin.scope === "bundled" && isSwitchedOn(settings, name) && presetOf(namespace)?.skill === name;
}

/** By the user: whoever made a workspace gives nothing of theirs to anybody, and starts no program. */
function isSwitchedOn({ skills }: Host["settings"], name: string): boolean {
  const { enabled, enabledBy } = skills.get(name) ?? {};
  return enabled === true && enabledBy !== "workspace";
}

interface Wired {
  provider: CapabilityProvider;
  settings: ProviderSettings;
}

interface Place {
  home: string;
  env: Readonly<Record<string, string | undefined>>;
}

/** A provider that is only opened when it is first asked. */
function wiring(namespace: string, settings: ProviderSettings, place: Place): Wired {
  const { command } = settings;
  const preset = presetOf(namespace);
  let opened: Promise<CapabilityProvider> | undefined;
  const open = () => {
    opened ??= openProvider(namespace, settings, place);
    return opened;
  };
  const provider: CapabilityProvider = {
    namespace,
    from: command?.join(" ") ?? (preset?.open ? BUILT_IN : "nobody"),
    ...defined({ origin: command?.join(" ") ?? preset?.originOf?.(settings) }),
    seconds: secondsOf(settings.seconds),
    describe: async (options) => (await open()).describe(options),
    invoke: async (call, options) => (await open()).invoke(call, options),
    health: async (options) => {
      const steps = defined({ steps: preset?.steps });
      try {
        const health = await (await open()).health(options);
        return health.isReady || health.steps ? health : { ...health, ...steps };
      } catch (error) {
        if (!preset) throw error;
        return { isReady: false, message: reason(error), ...steps };
      }
    },
    auth: {
      begin: async (request, options) => (await authOf(open())).begin(request, options),
      complete: async (answer, options) => (await authOf(open())).complete(answer, options),
      poll: async (answer, options) => (await authOf(open())).poll?.(answer, options),
    },
  };
  return { provider, settings };
}

async function authOf(opening: Promise<CapabilityProvider>) {
  const { auth, namespace } = await opening;
  if (auth) return auth;
  throw new SkillError("denied", {
    message: `Nobody signs in to '${namespace}'`,
    fix: "its provider asks for nobody, or it is done elsewhere",
  });
}

async function openProvider(namespace: string, settings: ProviderSettings, place: Place): Promise<CapabilityProvider> {
  const { command, seconds } = settings;
  const preset = presetOf(namespace);
  if (command === undefined) {
    if (preset?.open) return preset.open(settings);
    throw new SkillError("provider-missing", {
      message: `Nobody serves '${namespace}': it has no command`,
      fix: `name the program: command under [capabilities.providers.${namespace}] in config.toml`,
    });
  }
  const { bridgeProvider } = await import("./bridge.ts");
  const { home, env } = place;
  return bridgeProvider({
    ...{ namespace, command, ...defined({ seconds }) },
    env: environmentOf(namespace, settings, place),
    hide: hidingOf(settings, place),
    // Never the workspace: what lies there could be started in place of what was meant.
    folder: existsSync(home) ? home : userHome(env),
  });
}

/** What a program needs to find itself and its own things, and what the operator gives it. None of the models' keys, and no skill's values. */
function environmentOf(
  namespace: string,
  { env: given = new Map() }: ProviderSettings,
  place: Place,
): Record<string, string> {
  const passed = Object.entries(place.env).filter((entry): entry is [string, string] => PASSED.test(entry[0]));
  const values = [...given].map(([name, written]) => [
    name,
    resolved(written, place, (why) => {
      throw new SkillError("provider-missing", {
        message: `Provider '${namespace}' cannot be started: ${name}: ${why}`,
        fix: `correct env.${name} under [capabilities.providers.${namespace}] in config.toml`,
      });
    }),
  ]);
  return { ...Object.fromEntries(passed), ...Object.fromEntries(values) };
}

/** What its program prints is quoted when it fails. */
function hidingOf(
  { env: given = new Map<string, string>() }: ProviderSettings,
  place: Place,
): (text: string) => string {
  const values = [...given].map(([name, written]): [string, string] => [
    name,
    resolved(written, place, () => "" as never),
  ]);
  return openHiding(new Map(values.filter(([, value]) => value !== ""))).text;
}

const PASSED = /^(?:PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_\w+|TZ|TMPDIR|XDG_\w+|DBUS_SESSION_BUS_ADDRESS|SKILLET_HOME)$/;
