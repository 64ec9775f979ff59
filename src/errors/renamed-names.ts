/**
 * THE table of names that users and programs may still have from 0.1.0, with the name of today, by kind. Files written by
 * 0.1.0 are read with it, `skillet config migrate` rewrites configurations with it, and docs/errors.md lists it.
 */
export const RENAMED_NAMES = {
  code: {
    "address-long": "address-too-long",
    "already-there": "already-present",
    "another-hook": "unmanaged-hook",
    "another-server": "server-name-taken",
    "answer-cut": "answer-truncated",
    "approval-other": "approval-mismatch",
    "archive-disagrees": "archive-inconsistent",
    "archive-parts": "archive-multipart",
    "archive-stray": "archive-extra-data",
    "broker-answer": "broker-answer-invalid",
    "broker-gone": "broker-unreachable",
    "broker-silent": "broker-timeout",
    bug: "internal-error",
    "changed-meanwhile": "concurrent-change",
    "config-readable": "config-world-readable",
    "delimiter-blanks": "delimiter-whitespace",
    elsewhere: "original-not-listed",
    "entry-clash": "entry-collision",
    "entry-damaged": "entry-corrupt",
    "entry-deep": "entry-too-deep",
    "entry-ending": "entry-trailing-dot",
    "entry-long": "entry-too-long",
    "entry-parent": "entry-traversal",
    "entry-through-link": "entry-through-symlink",
    "entry-twice": "duplicate-entry",
    "frame-cut": "request-missing",
    "frame-invalid": "request-invalid",
    "frame-timeout": "request-timeout",
    "frame-too-large": "request-too-large",
    "home-left": "home-not-removed",
    "in-the-way": "unmanaged-path",
    "inside-skill": "output-inside-skill",
    "installs-unreadable": "exports-unreadable",
    "key-twice": "duplicate-field",
    "key-used": "idempotency-key-reused",
    "keys-at-stake": "unmanaged-keys",
    "leading-blank": "leading-blank-lines",
    "line-ends": "line-endings",
    "link-broken": "symlink-broken",
    "link-loop": "symlink-loop",
    "link-outside": "symlink-outside",
    "lock-differs": "lock-mismatch",
    "lock-odd-file": "lock-unsupported-file",
    machine: "system-error",
    "max-steps": "max-iterations",
    "mcp-many": "mcp-too-many-tools",
    "mcp-schema": "mcp-tool-schema",
    "mcp-tool": "mcp-tool-unknown",
    "name-case-clash": "name-case-collision",
    "name-differs": "name-mismatch",
    "name-none": "no-valid-name",
    "name-twice": "duplicate-name",
    "name-unusable": "name-invalid",
    "network-closed": "network-not-allowed",
    "network-wanted": "network-blocked",
    "no-cue": "use-when-missing",
    "no-socket": "broker-missing",
    "nonce-used": "nonce-reused",
    "not-agreed": "not-confirmed",
    "not-installed": "not-exported",
    "not-made": "call-skipped",
    "nothing-asked": "no-pending-approval",
    "open-task": "todo-found",
    "original-gone": "original-missing",
    "other-system": "unsupported-os",
    "owned-by-others": "unsafe-permissions",
    "package-count": "package-limit",
    "package-missing": "optional-package-missing",
    "package-place": "package-folder-permissions",
    "package-range": "package-subid-range",
    "package-room": "package-disk-space",
    "package-system": "package-unsupported-os",
    "packages-missing": "system-packages-missing",
    "path-closed": "path-denied",
    "path-folder": "path-is-folder",
    "path-no-file": "path-not-a-file",
    "path-no-folder": "path-not-a-folder",
    "provider-answer": "provider-answer-invalid",
    "quota-reached": "quota-exceeded",
    "resource-link-loop": "resource-symlink-loop",
    "resource-other": "resource-other-skill",
    "run-elsewhere": "run-other-workspace",
    "sandbox-left": "sandbox-not-removed",
    "sandbox-start": "sandbox-start-failed",
    "secret-not-given": "secret-not-approved",
    "secret-short": "secret-too-short",
    "site-digest": "site-digest-mismatch",
    "skill-file-shared": "skill-file-hard-link",
    "skill-gone": "run-skill-missing",
    "source-gone": "source-skill-missing",
    "source-holds-target": "source-contains-target",
    "switched-off": "original-disabled",
    "to-be-used": "runs-as-subagent",
    "toolset-ended": "toolset-exited",
    "trust-own": "trust-not-needed",
    unreachable: "target-unreachable",
    "value-cut": "value-truncated",
    "workspace-closed": "workspace-inaccessible",
    "workspace-gone": "run-workspace-missing",
    "workspace-link": "workspace-symlink",
    "workspace-own": "workspace-trusted-code",
  },
  /** Configuration keys. A new key is in the table of the old one. */
  config: {
    "disclosure.asks": "disclosure.list_intents",
    "limits.most_iterations": "limits.iteration_cap",
    "tools.mcp.*.without_asking": "tools.mcp.*.auto_approve",
  },
  event: {
    "approval-asked": "approval-requested",
    "approval-given": "approval-decided",
    "text-said": "text-generated",
  },
  /** Keys in the JSON output, in the events and journals of runs, and in the files of approvals and values. */
  field: { effect: "approvalRequest", place: "location" },
  /** Reasons why a run stopped. */
  stop: { "max-steps": "max-iterations" },
  command: {
    "install NAME --to CLIENT": "export NAME --to CLIENT",
    "install --list": "export --list",
    "install --update": "export --update",
    "uninstall NAME --to CLIENT": "export NAME --remove --to CLIENT",
  },
} as const satisfies Record<string, Readonly<Record<string, string>>>;

export type RenamedKind = keyof typeof RENAMED_NAMES;

/** Returns the name of today for a former name, or undefined for every other name. */
export function findNewName(kind: RenamedKind, name: string): string | undefined {
  const names: Readonly<Record<string, string>> = RENAMED_NAMES[kind];
  return Object.hasOwn(names, name) ? names[name] : undefined;
}

/** Returns the name of today for a name that a file contains. */
export function toNewName(kind: RenamedKind, name: string): string {
  return findNewName(kind, name) ?? name;
}

/**
 * Gives the keys of an object that was just parsed their names of today. A key of today wins. Contract: keeps the order,
 * since a resumed run compares its request with the recorded one.
 */
export function renameFormerFields(fields: Record<string, unknown>): void {
  const former: Readonly<Record<string, string>> = RENAMED_NAMES.field;
  const entries = Object.entries(fields);
  if (!entries.some(([key]) => Object.hasOwn(former, key))) return;
  for (const [key] of entries) delete fields[key];
  for (const [key, value] of entries) {
    const name = Object.hasOwn(former, key) ? (former[key] ?? key) : key;
    if (name === key || !entries.some(([other]) => other === name)) fields[name] = value;
  }
}
