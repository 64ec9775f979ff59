import { getErrnoCode, SkillError } from "../errors/problem.ts";

/** Optional packages with the versions that skillet works with: the peer dependencies of package.json. */
export const PEER_RANGES = {
  ai: "^7.0.0",
  "@ai-sdk/anthropic": "^4.0.0",
  "@ai-sdk/openai": "^4.0.0",
  "@ai-sdk/openai-compatible": "^3.0.0",
  "@modelcontextprotocol/client": "^2.4.0",
  "@modelcontextprotocol/server": "^2.4.0",
  "@dbos-inc/dbos-sdk": "5.3.0",
  pg: "^8.16.0",
} as const satisfies Readonly<Record<string, string>>;

export type PeerPackage = keyof typeof PEER_RANGES;

/** Packages that are installed together, by the name that `skillet setup` accepts. */
export const PEER_GROUPS = {
  anthropic: ["ai", "@ai-sdk/anthropic"],
  openai: ["ai", "@ai-sdk/openai"],
  "openai-compatible": ["ai", "@ai-sdk/openai-compatible"],
  mcp: ["@modelcontextprotocol/client", "@modelcontextprotocol/server"],
  postgres: ["pg", "@dbos-inc/dbos-sdk"],
} as const satisfies Readonly<Record<string, readonly PeerPackage[]>>;

/** Returns the packages with their version ranges, as arguments of `npm install`. */
export function formatPeers(names: readonly PeerPackage[]): string {
  return names.map((name) => `${name}@${PEER_RANGES[name]}`).join(" ");
}

// Each import is in its own `try`: bundlers then treat a package that is not installed as optional. The command line bundles all of them.

/** Loads optional packages when they are first needed. Each throws a SkillError with the command that installs it. */
export const loadPeer = {
  async ai() {
    try {
      return await import("ai");
    } catch (cause) {
      throw createMissingPackageError("ai", cause);
    }
  },
  async anthropic() {
    try {
      return await import("@ai-sdk/anthropic");
    } catch (cause) {
      throw createMissingPackageError("@ai-sdk/anthropic", cause);
    }
  },
  async openai() {
    try {
      return await import("@ai-sdk/openai");
    } catch (cause) {
      throw createMissingPackageError("@ai-sdk/openai", cause);
    }
  },
  async openaiCompatible() {
    try {
      return await import("@ai-sdk/openai-compatible");
    } catch (cause) {
      throw createMissingPackageError("@ai-sdk/openai-compatible", cause);
    }
  },
  async mcpClient() {
    try {
      return await import("@modelcontextprotocol/client");
    } catch (cause) {
      throw createMissingPackageError("@modelcontextprotocol/client", cause);
    }
  },
  async mcpStdio() {
    try {
      return await import("@modelcontextprotocol/client/stdio");
    } catch (cause) {
      throw createMissingPackageError("@modelcontextprotocol/client", cause);
    }
  },
  async mcpSkills() {
    try {
      return await import("@modelcontextprotocol/client/ext/skills");
    } catch (cause) {
      throw createMissingPackageError("@modelcontextprotocol/client", cause);
    }
  },
  async pg() {
    try {
      return (await import("pg")).default;
    } catch (cause) {
      throw createMissingPackageError("pg", cause);
    }
  },
  /** The tables and the pauses of DBOS: internal modules, so its version is exact. */
  async dbosInternals() {
    try {
      // A bundler accepts a missing module of an `import()` directly in `try`.
      const { ensureSystemDatabase } = await import("@dbos-inc/dbos-sdk/internal/system_database");
      const { allMigrations } = await import("@dbos-inc/dbos-sdk/internal/sysdb_migrations/internal/migrations");
      const { dbRetryConfig } = await import("@dbos-inc/dbos-sdk/internal/utils");
      return { ensureSystemDatabase, allMigrations, dbRetryConfig };
    } catch (cause) {
      throw createMissingPackageError("@dbos-inc/dbos-sdk", cause);
    }
  },
  async dbos() {
    try {
      return await import("@dbos-inc/dbos-sdk");
    } catch (cause) {
      throw createMissingPackageError("@dbos-inc/dbos-sdk", cause);
    }
  },
};

const NOT_FOUND_CODES: ReadonlySet<unknown> = new Set([
  "ERR_MODULE_NOT_FOUND",
  "MODULE_NOT_FOUND",
  "ERR_PACKAGE_PATH_NOT_EXPORTED",
]);

/** Converts a failed import of a missing package to a SkillError. Other errors are returned unchanged. */
function createMissingPackageError(name: PeerPackage, cause: unknown): unknown {
  if (!NOT_FOUND_CODES.has(getErrnoCode(cause))) return cause;
  const needed: readonly PeerPackage[] = name.startsWith("@ai-sdk/") ? ["ai", name] : [name];
  return new SkillError("optional-package-missing", {
    message: `The package ${name} is not installed, or its version is not supported`,
    fix: `install it next to your program: npm install ${formatPeers(needed)}`,
    cause,
  });
}
