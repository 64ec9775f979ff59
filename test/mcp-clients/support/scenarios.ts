// The conformance suite's scenarios for servers, spelled out, so that one that disappears or is new is noticed.
import type { Revision } from "./suite.ts";

export const SKILLS = ["sep-2640-skills-directory", "sep-2640-skills-enumeration", "sep-2640-skills-manifest"];

const BOTH = [
  "completion-complete",
  "dns-rebinding-protection",
  "prompts-get-embedded-resource",
  "prompts-get-simple",
  "prompts-get-with-args",
  "prompts-get-with-image",
  "prompts-list",
  "resources-list",
  "resources-read-binary",
  "resources-read-text",
  "resources-templates-read",
  "server-sse-multiple-streams",
  "tools-call-audio",
  "tools-call-embedded-resource",
  "tools-call-error",
  "tools-call-image",
  "tools-call-mixed-content",
  "tools-call-simple-text",
  "tools-call-with-progress",
  "tools-list",
];

/** The required scenarios for a server of the revision. */
export const REQUIRED: Record<Revision, readonly string[]> = {
  "2025-11-25": [
    ...BOTH,
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
    "logging-set-level",
    "ping",
    "resources-subscribe",
    "resources-unsubscribe",
    "server-initialize",
    "tools-call-elicitation",
    "tools-call-sampling",
    "tools-call-with-logging",
  ],
  "2026-07-28": [
    ...BOTH,
    "caching",
    "input-required-result-basic-elicitation",
    "input-required-result-basic-list-roots",
    "input-required-result-basic-sampling",
    "input-required-result-capability-check",
    "input-required-result-ignore-extra-params",
    "input-required-result-missing-input-response",
    "input-required-result-multi-round",
    "input-required-result-multiple-input-requests",
    "input-required-result-non-tool-request",
    "input-required-result-request-state",
    "input-required-result-result-type",
    "input-required-result-tampered-state",
    "input-required-result-unsupported-methods",
    "input-required-result-validate-input",
    "sep-2164-resource-not-found",
    "server-stateless",
  ],
};

/** Optional scenarios that pass here nonetheless. */
export const FURTHER: Record<Revision, readonly string[]> = {
  "2025-11-25": ["json-schema-2020-12", "server-session-lifecycle"],
  "2026-07-28": ["http-custom-header-server-validation", "http-header-validation", "json-schema-2020-12"],
};

/** Optional scenarios that do not pass, with the reason. */
export const NOT_PASSED: Record<Revision, Readonly<Record<string, readonly string[]>>> = {
  "2025-11-25": {
    // A stream that broke off cannot be resumed: that is recommended, and would keep every answer for a client that may
    // never return.
    "nothing is resumed": ["server-sse-polling"],
  },
  "2026-07-28": {
    "skillet does not declare the tasks extension: it has no tasks": [
      "tasks-capability-negotiation",
      "tasks-dispatch-and-envelope",
      "tasks-lifecycle",
      "tasks-mrtr-composition",
      "tasks-mrtr-input",
      "tasks-request-headers",
      "tasks-request-state-removal",
      "tasks-required-task-error",
      "tasks-wire-fields",
    ],
    // It skips itself: "The harness needs a rewrite against the new channel".
    "the suite has no test of it yet": ["tasks-status-notifications"],
  },
};

/** Scenarios that use no tool, resource or prompt of the suite, so that a server without them passes too. */
export const PLAIN: Record<Revision, readonly string[]> = {
  "2025-11-25": [
    "dns-rebinding-protection",
    "ping",
    "prompts-list",
    "resources-list",
    "server-initialize",
    "server-session-lifecycle",
    "server-sse-multiple-streams",
    "tools-list",
  ],
  "2026-07-28": [
    "caching",
    "dns-rebinding-protection",
    "http-header-validation",
    "input-required-result-unsupported-methods",
    "prompts-list",
    "resources-list",
    "sep-2164-resource-not-found",
    "server-sse-multiple-streams",
    "tools-list",
  ],
};

/** The checks of `server-stateless` that call tools of the suite's by name, or ask them to change a list. */
export const STATELESS_TOOLS: readonly string[] = [
  "sep-2575-http-server-no-independent-requests-on-stream",
  "sep-2575-missing-capability-http-400",
  "sep-2575-server-no-log-without-loglevel",
  "sep-2575-server-rejects-undeclared-capability",
  "sep-2575-server-sends-prompts-list-changed-on-subscription",
  "sep-2575-server-sends-tools-list-changed-on-subscription",
];
