import { realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import { isJsonObject } from "../util/objects.ts";
import { isInside, readFileInside } from "../util/safe-path.ts";
import { formatCount } from "../util/text.ts";
import { quoteSourcePath } from "./remote-source.ts";

export interface PluginFolders {
  /** Absolute paths of the folders that contain its skills. */
  folders: string[];
  /** Skipped parts and the reasons: one sentence each. */
  notes: string[];
  /** For a marketplace: the folders of its plugins' skills. It may have other skills, which are found with it. */
  plugins?: string[];
}

/**
 * Finds the folders with the skills of a plugin or a marketplace of plugins. Returns undefined if the folder is
 * neither. Contract: the folder is absolute.
 */
export function findPluginFolders(folder: string): PluginFolders | undefined {
  const root = realpathSync(folder);
  const marketplace = readPluginManifest(root, ".claude-plugin/marketplace.json");
  return marketplace ? findMarketplaceFolders(root, marketplace) : findOnePluginFolders(root);
}

function findOnePluginFolders(root: string): PluginFolders | undefined {
  for (const kind of MANIFEST_KINDS) {
    const manifest = readPluginManifest(root, kind.path);
    if (manifest && kind.isPlugin(manifest)) return listManifestFolders(root, kind, manifest);
  }
  return undefined;
}

/** The maximum number of plugins that are read. */
const MAX_PLUGINS = 1000;

/** Finds the skill folders of all plugins that are in the marketplace itself. */
function findMarketplaceFolders(root: string, marketplace: PluginManifest): PluginFolders {
  const plugins = Array.isArray(marketplace["plugins"]) ? marketplace["plugins"].filter(isJsonObject) : [];
  const { pluginRoot } = isJsonObject(marketplace["metadata"]) ? marketplace["metadata"] : {};
  const base = typeof pluginRoot === "string" ? pluginRoot : "";
  const folders: string[] = [];
  const notes: string[] = [];
  let elsewhere = 0;
  let others = 0;
  for (const plugin of plugins.slice(0, MAX_PLUGINS)) {
    const { source, skills } = plugin;
    if (typeof source !== "string") {
      elsewhere++;
      continue;
    }
    const own = resolvePluginFolder(root, source) ?? resolvePluginFolder(root, join(base, source));
    if (own === undefined) {
      notes.push(
        `The marketplace says that the plugin ${getPluginName(plugin)}is in ${quoteSourcePath(source)}, which is not a folder in it`,
      );
      continue;
    }
    const named = toTexts(skills).flatMap((path) => resolvePluginFolder(own, path) ?? []);
    const found = findOnePluginFolders(own);
    others += Number(found !== undefined && found.notes.length > 0);
    const standard = found?.folders ?? [resolvePluginFolder(own, "skills") ?? []].flat();
    folders.push(...(named.length > 0 ? named : standard));
  }
  if (elsewhere > 0)
    notes.push(
      `${formatCount(elsewhere, "plugin")} of the marketplace ${elsewhere === 1 ? "is" : "are"} in other repositories: add those by their address`,
    );
  if (others > 0)
    notes.push(
      `${formatCount(others, "plugin")} of the marketplace ${others === 1 ? "has" : "have"} more than skills (agents, commands, hooks): only skills are added`,
    );
  if (plugins.length > MAX_PLUGINS) notes.push(`Only the first ${MAX_PLUGINS} plugins of the marketplace were read`);
  return { folders: [root], plugins: removeNestedFolders(folders), notes };
}

type PluginManifest = Readonly<Record<string, unknown>>;

interface ManifestKind {
  path: string;
  isPlugin(manifest: PluginManifest): boolean;
  /** True if the manifest may name more skill folders than `skills`. */
  namesFolders: boolean;
  /** Returns the reason to skip its skills. */
  refuse?(manifest: PluginManifest): string | undefined;
}

/** The first existing one counts. */
const MANIFEST_KINDS: readonly ManifestKind[] = [
  {
    // Many formats use the name plugin.json: only one with this schema is an Agent Plugin.
    path: "plugin.json",
    isPlugin: ({ $schema }) => typeof $schema === "string" && /^https:\/\/agent-plugins\.org\/schemas\//.test($schema),
    namesFolders: false,
    refuse({ $schema }) {
      if (
        SUPPORTED_VERSIONS.some(
          (version) => $schema === `https://agent-plugins.org/schemas/${version}/plugin.schema.json`,
        )
      )
        return;
      return `its plugin.json follows ${quoteSourcePath(String($schema))}, but only Agent Plugins ${SUPPORTED_VERSIONS.join(" and ")} are supported`;
    },
  },
  { path: ".plugin/plugin.json", isPlugin: () => true, namesFolders: true },
  { path: ".claude-plugin/plugin.json", isPlugin: () => true, namesFolders: true },
];

/** Both versions keep skills in the same folder. */
const SUPPORTED_VERSIONS = ["1.0.0", "1.1.0"];

/** Plugin parts other than skills: their default paths, and the key that names other paths. */
const UNSUPPORTED_PARTS: readonly { what: string; paths: readonly string[]; key: string }[] = [
  { what: "agents", paths: ["agents"], key: "agents" },
  { what: "commands", paths: ["commands"], key: "commands" },
  { what: "hooks", paths: ["hooks", "hooks.json"], key: "hooks" },
  { what: "language servers", paths: [".lsp.json"], key: "lspServers" },
  { what: "MCP servers", paths: ["mcp.json", ".mcp.json"], key: "mcpServers" },
];

const MAX_MANIFEST_BYTES = 1024 * 1024;

function readPluginManifest(root: string, path: string): PluginManifest | undefined {
  const read = readFileInside(root, path, MAX_MANIFEST_BYTES);
  if ("code" in read) return undefined;
  try {
    const manifest: unknown = JSON.parse(read.bytes.toString().replace(/^\ufeff/, ""));
    return isJsonObject(manifest) ? manifest : undefined;
  } catch {
    return undefined; // A folder that is not a plugin may still contain skills.
  }
}

function listManifestFolders(root: string, kind: ManifestKind, manifest: PluginManifest): PluginFolders {
  const refused = kind.refuse?.(manifest);
  if (refused !== undefined) return { folders: [], notes: [`The plugin was skipped: ${refused}`] };
  const notes: string[] = [];
  const named = kind.namesFolders ? toTexts(manifest["skills"]) : [];
  const folders = ["skills", ...named].flatMap((path) => {
    const real = resolvePluginFolder(root, path);
    if (real === undefined && path !== "skills") {
      notes.push(`The plugin says that skills are in ${quoteSourcePath(path)}, which is not a folder inside it`);
    }
    return real === undefined ? [] : [real];
  });
  const others = UNSUPPORTED_PARTS.filter(
    ({ paths, key }) =>
      (kind.namesFolders && key in manifest) || paths.some((path) => statPluginPath(root, path) !== undefined),
  );
  if (others.length > 0) {
    const list = others.map(({ what }) => what).join(", ");
    notes.push(`The plugin ${getPluginName(manifest)}has more than skills (${list}): only its skills are added`);
  }
  return { folders: removeNestedFolders(folders), notes };
}

/** Removes folders inside other ones, which are found with them. */
function removeNestedFolders(folders: readonly string[]): string[] {
  const all = [...new Set(folders)];
  return all.filter((folder) => !all.some((other) => other !== folder && isInside(other, folder)));
}

function toTexts(value: unknown): string[] {
  return (Array.isArray(value) ? value : [value]).filter((text) => typeof text === "string");
}

function resolvePluginFolder(root: string, path: string): string | undefined {
  if (!statPluginPath(root, path)?.isDirectory()) return undefined;
  const real = realpathSync(join(root, path));
  return isInside(root, real) ? real : undefined;
}

function statPluginPath(root: string, path: string) {
  if (path.includes("\0")) return undefined;
  try {
    return statSync(join(root, path), { throwIfNoEntry: false });
  } catch {
    return undefined; // The path leads through a file, or through a symlink loop.
  }
}

function getPluginName({ name }: PluginManifest): string {
  return typeof name === "string" && name !== "" ? `${quoteSourcePath(name)} ` : "";
}
