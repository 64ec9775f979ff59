import { realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import { isInside, readInside } from "../shared/inside.ts";
import { count } from "../shared/text.ts";
import { isData } from "../skill/data.ts";
import { shown } from "./refusal.ts";

export interface PluginFolders {
  /** Absolute paths of the folders that hold its skills. */
  folders: string[];
  /** What of it is not taken, and why: a sentence each. */
  notes: string[];
  /** Of a marketplace: the folders of its plugins' skills. It may have skills besides them, which are found with it. */
  plugins?: string[];
}

/** Returns where the skills of a plugin or of a marketplace of plugins are, or undefined when the folder is neither. Contract: the folder is absolute. */
export function pluginFolders(folder: string): PluginFolders | undefined {
  const root = realpathSync(folder);
  const marketplace = manifestAt(root, ".claude-plugin/marketplace.json");
  return marketplace ? marketplaceFolders(root, marketplace) : onePluginFolders(root);
}

function onePluginFolders(root: string): PluginFolders | undefined {
  for (const kind of MANIFESTS) {
    const manifest = manifestAt(root, kind.path);
    if (manifest && kind.isPlugin(manifest)) return foldersOf(root, kind, manifest);
  }
  return undefined;
}

/** More plugins than this are not looked into. */
const MOST_PLUGINS = 1000;

/** Finds the folders of the skills of all plugins that are in the marketplace itself. */
function marketplaceFolders(root: string, marketplace: Manifest): PluginFolders {
  const plugins = Array.isArray(marketplace["plugins"]) ? marketplace["plugins"].filter(isData) : [];
  const { pluginRoot } = isData(marketplace["metadata"]) ? marketplace["metadata"] : {};
  const base = typeof pluginRoot === "string" ? pluginRoot : "";
  const folders: string[] = [];
  const notes: string[] = [];
  let elsewhere = 0;
  let others = 0;
  for (const plugin of plugins.slice(0, MOST_PLUGINS)) {
    const { source, skills } = plugin;
    if (typeof source !== "string") {
      elsewhere++;
      continue;
    }
    const own = realFolder(root, source) ?? realFolder(root, join(base, source));
    if (own === undefined) {
      notes.push(
        `The marketplace says that the plugin ${nameOf(plugin)}is in ${shown(source)}, which is not a folder in it`,
      );
      continue;
    }
    const named = textsOf(skills).flatMap((path) => realFolder(own, path) ?? []);
    const found = onePluginFolders(own);
    others += Number(found !== undefined && found.notes.length > 0);
    const standard = found?.folders ?? [realFolder(own, "skills") ?? []].flat();
    folders.push(...(named.length > 0 ? named : standard));
  }
  if (elsewhere > 0)
    notes.push(
      `${count(elsewhere, "plugin")} of the marketplace ${elsewhere === 1 ? "is" : "are"} in other repositories: add those by their address`,
    );
  if (others > 0)
    notes.push(
      `${count(others, "plugin")} of the marketplace ${others === 1 ? "has" : "have"} more than skills (agents, commands, hooks): only skills are added`,
    );
  if (plugins.length > MOST_PLUGINS)
    notes.push(`Only the first ${MOST_PLUGINS} plugins of the marketplace were looked into`);
  return { folders: [root], plugins: withoutNested(folders), notes };
}

type Manifest = Readonly<Record<string, unknown>>;

interface ManifestKind {
  path: string;
  isPlugin(manifest: Manifest): boolean;
  /** Whether it may name more folders of skills than `skills`. */
  namesFolders: boolean;
  /** Why its skills are not looked for. */
  refuse?(manifest: Manifest): string | undefined;
}

/** The first that is there counts. */
const MANIFESTS: readonly ManifestKind[] = [
  {
    // Many things are called plugin.json: only one that says that it is an Agent Plugin is.
    path: "plugin.json",
    isPlugin: ({ $schema }) => typeof $schema === "string" && /^https:\/\/agent-plugins\.org\/schemas\//.test($schema),
    namesFolders: false,
    refuse({ $schema }) {
      if (UNDERSTOOD.some((version) => $schema === `https://agent-plugins.org/schemas/${version}/plugin.schema.json`))
        return;
      return `its plugin.json follows ${shown(String($schema))}, and of Agent Plugins only ${UNDERSTOOD.join(" and ")} are understood`;
    },
  },
  { path: ".plugin/plugin.json", isPlugin: () => true, namesFolders: true },
  { path: ".claude-plugin/plugin.json", isPlugin: () => true, namesFolders: true },
];

/** Both keep skills in the same place. */
const UNDERSTOOD = ["1.0.0", "1.1.0"];

/** What a plugin may bring besides skills: where it is by itself, and the key that names it elsewhere. */
const OTHERS: readonly { what: string; paths: readonly string[]; key: string }[] = [
  { what: "agents", paths: ["agents"], key: "agents" },
  { what: "commands", paths: ["commands"], key: "commands" },
  { what: "hooks", paths: ["hooks", "hooks.json"], key: "hooks" },
  { what: "language servers", paths: [".lsp.json"], key: "lspServers" },
  { what: "MCP servers", paths: ["mcp.json", ".mcp.json"], key: "mcpServers" },
];

const LARGEST_MANIFEST = 1024 * 1024;

function manifestAt(root: string, path: string): Manifest | undefined {
  const read = readInside(root, path, LARGEST_MANIFEST);
  if ("code" in read) return undefined;
  try {
    const manifest: unknown = JSON.parse(read.bytes.toString().replace(/^\ufeff/, ""));
    return isData(manifest) ? manifest : undefined;
  } catch {
    return undefined; // What is no plugin may still hold skills.
  }
}

function foldersOf(root: string, kind: ManifestKind, manifest: Manifest): PluginFolders {
  const refused = kind.refuse?.(manifest);
  if (refused !== undefined) return { folders: [], notes: [`The plugin was not looked into: ${refused}`] };
  const notes: string[] = [];
  const named = kind.namesFolders ? textsOf(manifest["skills"]) : [];
  const folders = ["skills", ...named].flatMap((path) => {
    const real = realFolder(root, path);
    if (real === undefined && path !== "skills") {
      notes.push(`The plugin says that skills are in ${shown(path)}, which is no folder inside it`);
    }
    return real === undefined ? [] : [real];
  });
  const others = OTHERS.filter(
    ({ paths, key }) =>
      (kind.namesFolders && key in manifest) || paths.some((path) => statAt(root, path) !== undefined),
  );
  if (others.length > 0) {
    const list = others.map(({ what }) => what).join(", ");
    notes.push(`The plugin ${nameOf(manifest)}has more than skills (${list}): only its skills are added`);
  }
  return { folders: withoutNested(folders), notes };
}

/** A folder inside another is found with it. */
function withoutNested(folders: readonly string[]): string[] {
  const all = [...new Set(folders)];
  return all.filter((folder) => !all.some((other) => other !== folder && isInside(other, folder)));
}

function textsOf(value: unknown): string[] {
  return (Array.isArray(value) ? value : [value]).filter((text) => typeof text === "string");
}

function realFolder(root: string, path: string): string | undefined {
  if (!statAt(root, path)?.isDirectory()) return undefined;
  const real = realpathSync(join(root, path));
  return isInside(root, real) ? real : undefined;
}

function statAt(root: string, path: string) {
  if (path.includes("\0")) return undefined;
  try {
    return statSync(join(root, path), { throwIfNoEntry: false });
  } catch {
    return undefined; // Through a file, or through links without end.
  }
}

function nameOf({ name }: Manifest): string {
  return typeof name === "string" && name !== "" ? `${shown(name)} ` : "";
}
