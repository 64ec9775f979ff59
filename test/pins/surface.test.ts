import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { EXIT } from "../../src/cli/command-context.ts";
import { STOP_REASONS } from "../../src/config/index.ts";
import { DEFAULT_SETTINGS } from "../../src/config/settings.ts";
import { PROFILES } from "../../src/index.ts";
import * as clients from "../../src/remote/clients/index.ts";
import { FIXED_VARIABLES, ISOLATION_LEVELS } from "../../src/sandbox/index.ts";
import { FINDING_CODES, SCOPES } from "../../src/skill/index.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const PUBLISHED: Record<string, { types?: string }> = JSON.parse(
  readFileSync(join(ROOT, "package.json"), "utf8"),
).exports;

/** The exported values of each entry point of the package. */
const EXPORTS: Record<string, string[]> = {
  skillet: [
    "PROFILES",
    "SkillError",
    "TIERS",
    "Tool",
    "advise",
    "checkPath",
    "checkText",
    "closeMcpServers",
    "createAgentTools",
    "createConversation",
    "createDirectorySource",
    "createInlineSource",
    "createSettings",
    "defineSkill",
    "disclose",
    "discover",
    "formatProblem",
    "formatPromptListing",
    "formatPromptSection",
    "listLocations",
    "loadCatalog",
    "openSession",
    "parseSkillMd",
    "planUse",
    "resumeChat",
    "resumeRun",
    "runScript",
    "toSkillMd",
    "useSkill",
    "validateSkillFile",
    "watchCatalog",
  ],
  "skillet/agent": [
    "createAdviceMemory",
    "createFileAdviceMemory",
    "findDenials",
    "findUnavailability",
    "skillResult",
    "wrapResult",
  ],
  "skillet/ai": ["createSkillToolset"],
  "skillet/capabilities": ["chainAuditEntry", "createAuditLog", "createCapabilities", "createVault", "verifyAudit"],
  "skillet/catalog": [
    "LIST_INTENT_PHRASES",
    "MATCH_LEVELS",
    "createEmbeddedMatcher",
    "createMatcher",
    "formatSkillContent",
    "selectShortlist",
  ],
  "skillet/claude": ["createPromptHook", "evaluateWithClaude"],
  "skillet/clients": [
    "EXPORT_FORMATS",
    "NATIVE_CLIENTS",
    "SkillInstallationError",
    "applyFolderChange",
    "createClientCopyStore",
    "createHermeticHome",
    "exportSkill",
    "installPromptSkills",
    "removeClientCopies",
    "resolveClientTarget",
    "resolveExportPath",
    "writeClientCopies",
  ],
  "skillet/config": ["STOP_REASONS", "createSystemInfo"],
  "skillet/eval": [
    "EVAL_LEVELS",
    "PromptfooProvider",
    "REPORT_FORMATS",
    "TRANSCRIPT_CLIENTS",
    "adjustPValues",
    "chooseSkill",
    "comparePairs",
    "computeMcNemar",
    "computePower",
    "computeRate",
    "computeRecall",
    "createAgentArm",
    "createBaselineArm",
    "createEvalBudget",
    "createEvalReport",
    "createEvalSchema",
    "createSkillArm",
    "createUseRecorder",
    "evaluateChoices",
    "evaluateTasks",
    "evaluateTriggers",
    "findDetectableEffect",
    "formatEvalReport",
    "improveTriggers",
    "listTranscripts",
    "mineTranscripts",
    "planPairs",
    "readEvalCases",
    "readEvalReports",
    "readRecording",
    "readSkillCases",
    "redactSecretShapes",
    "replayRun",
    "saveEvalReport",
    "saveRecording",
  ],
  "skillet/mcp": [
    "createMcpServer",
    "createResultEnvelope",
    "createSkillServer",
    "formatWireName",
    "mountSkills",
    "normalizeSchema",
    "serveHttp",
    "serveStreams",
  ],
  "skillet/postgres": ["openPostgresStores"],
  "skillet/prompts": [
    "PromptValidationError",
    "SkillRefError",
    "VisibilityExpansionRequired",
    "createPromptSession",
    "evaluatePrompt",
    "markdown",
    "promptTemplate",
    "skill",
    "skillRef",
    "skillsSection",
  ],
  "skillet/provider": ["PROVIDER_ERROR_CODES", "SkillError", "checkProvider", "defineProvider", "serveProvider"],
  "skillet/remote": [
    "addSkills",
    "adoptSkills",
    "checkSignature",
    "createScanSubject",
    "createSignerStore",
    "digestTree",
    "formatLock",
    "formatSourceAddress",
    "parseLock",
    "parseSourceAddress",
    "readFileTree",
    "scanFiles",
    "scanSkill",
    "signSkill",
    "verifySkills",
  ],
  "skillet/sandbox": ["FIXED_VARIABLES", "ISOLATION_LEVELS", "createNoSandbox", "createSandbox", "probeSandbox"],
  "skillet/skill": [
    "FINDING_CODES",
    "SCOPES",
    "computeSkillDigest",
    "copySkill",
    "createLazySkill",
    "findScript",
    "getSandboxPath",
    "listSkillScripts",
  ],
  "skillet/store": [
    "RUN_STATES",
    "createApprovalStore",
    "createRunStore",
    "createSecretGrants",
    "createStatisticsStore",
    "createTimeline",
    "createTrustStore",
  ],
  "skillet/testing": [
    "createMemoryApprovalStore",
    "createMemoryAudit",
    "createMemoryRunStore",
    "createMemoryStatisticsStore",
    "createMemoryVault",
    "testApprovalStore",
    "testAudit",
    "testRunStore",
    "testStatisticsStore",
    "testVault",
  ],
};

describe("the public interface", () => {
  it.each(Object.entries(EXPORTS))("has the exports of %s", async (entry, names) => {
    const { types } = PUBLISHED[entry.replace("skillet", ".")] ?? {};
    const source = types?.replace("./dist/types", "../../src").replace(".d.ts", ".ts") ?? "";
    expect(Object.keys(await import(source)).sort()).toEqual(names);
  });

  it("includes every entry point of the package", () => {
    const entries = Object.keys(PUBLISHED).filter((path) => path !== "./package.json");
    expect(entries.map((path) => path.replace(".", "skillet"))).toEqual(Object.keys(EXPORTS));
  });

  it("has at most 90 names in the main entry point, types included", () => {
    const text = readFileSync(join(ROOT, "src", "index.ts"), "utf8");
    const names = [...text.matchAll(/export (?:type )?\{([^}]*)\}/g)].flatMap(([, list = ""]) =>
      list.split(",").filter((name) => name.trim() !== ""),
    );
    expect(names.length).toBeGreaterThan(60);
    expect(names.length).toBeLessThanOrEqual(90);
  });

  it("has the clients and the formats of exports", () => {
    expect(Object.keys(clients.NATIVE_CLIENTS)).toEqual([
      ...["claude", "codex", "gemini", "opencode", "copilot", "vscode", "cursor", "agents"],
    ]);
    expect(Object.keys(clients.EXPORT_FORMATS)).toEqual(["skill-zip", "agent-plugin"]);
  });

  it("has the exit codes, the profiles and the scopes", () => {
    expect(EXIT).toEqual({ fine: 0, findings: 1, usage: 2, refused: 3, limit: 4, waiting: 5, interrupted: 130 });
    expect(PROFILES).toEqual(["load", "agentskills", "shipped", "claude-upload", "vscode"]);
    expect(SCOPES).toEqual(["bundled", "integration", "installed", "user", "workspace", "inline"]);
  });

  it("has the isolation levels, the default permissions, and the possible ones", () => {
    expect(ISOLATION_LEVELS).toEqual(["none", "partial", "strong"]);
    expect(FIXED_VARIABLES).toEqual({
      PATH: "/opt/skillet/bin:/usr/local/bin:/usr/bin:/bin",
      HOME: "/home/skill",
      TMPDIR: "/tmp",
      LANG: "C.UTF-8",
    });
    expect(DEFAULT_SETTINGS.scripts).toEqual({ seconds: 60, output: 1_048_576, arguments: 100, argumentBytes: 4096 });
    expect(DEFAULT_SETTINGS.sandbox).toEqual({
      network: [],
      pythonIndex: ["pypi.org:443", "files.pythonhosted.org:443"],
      memory: 536_870_912,
      processes: 128,
      disk: 67_108_864,
    });
  });

  it("has the stop reasons of a run, and its tools", () => {
    expect(STOP_REASONS).toEqual([
      "answer",
      "complete",
      "failed",
      "refused",
      "max-iterations",
      "timeout",
      "budget",
      "aborted",
      "waiting",
      "error",
    ]);
    expect(DEFAULT_SETTINGS.limits).toEqual({
      iterations: 10,
      iterationCap: 50,
      seconds: 900,
      nesting: 3,
      toolSeconds: 300,
      toolOutput: 12_000,
    });
  });

  it("has the codes and their severities by profile", () => {
    const severities = Object.entries(FINDING_CODES).map(([code, { severities }]) =>
      [code, ...Object.entries(severities).map(([profile, severity]) => `${profile}:${severity}`)].join(" "),
    );
    expect(severities.join("\n")).toMatchInlineSnapshot(`
      "not-found all:error
      unreadable all:error
      not-a-file all:error
      not-a-folder all:error
      symlink-broken all:error
      symlink-loop all:error
      symlink-outside all:warning shipped:error vscode:error
      hard-link-outside all:warning shipped:error vscode:error
      skill-file-hard-link all:error
      file-skipped all:warning shipped:error vscode:error
      file-too-large all:error
      not-utf8 all:error
      body-encoding all:error load:warning
      not-written all:error
      fix-refused all:warning
      file-case all:error load:warning
      file-name all:error load:warning
      file-mode all:warning shipped:error vscode:error
      too-many-files all:warning shipped:error vscode:error
      nearer-copy-broken all:warning
      nested-skill all:info
      nested-skipped all:info
      remote-unavailable all:warning
      remote-entry all:warning
      remote-limit all:warning
      remote-name-taken all:info
      source-failed all:error
      too-deep all:warning
      too-many-skills all:warning
      byte-order-mark all:warning load:info
      line-endings all:warning load:info
      leading-blank-lines all:error load:warning
      leading-comment all:error load:warning
      delimiter-whitespace all:warning load:info
      frontmatter-missing all:error
      frontmatter-unclosed all:error
      frontmatter-language all:error
      frontmatter-too-large all:error
      frontmatter-type all:error
      yaml-syntax all:error
      yaml-repaired all:error load:warning
      yaml-duplicate all:error load:warning
      yaml-alias all:error
      yaml-tag all:error
      yaml-limit all:error
      yaml-documents all:error
      value-truncated all:warning
      control-character all:error
      hidden-text all:error
      name-missing all:error load:none
      name-type all:error load:warning
      name-invalid all:error load:warning
      no-valid-name all:error
      name-reserved all:error load:warning
      name-lookalike all:error load:warning
      name-format all:error load:info
      name-device all:error load:none agentskills:warning claude-upload:warning
      name-vendor all:none claude-upload:error
      name-mismatch all:error load:info claude-upload:warning
      name-case-collision all:warning
      description-missing all:error
      description-type all:error load:warning
      description-too-long all:error load:reported-error
      description-long all:warning
      description-markup all:warning load:info claude-upload:error
      compatibility-too-long all:error load:none claude-upload:warning
      body-missing all:error
      field-type all:error load:warning
      field-value all:error load:warning
      key-unknown all:error load:info vscode:warning
      key-misspelled all:error load:warning
      duplicate-field all:warning
      key-client all:none agentskills:error claude-upload:error
      key-extension all:error load:none shipped:none vscode:warning
      key-other-client all:error load:none shipped:none vscode:warning
      key-top-level all:error load:none shipped:none vscode:warning
      key-author all:error load:none vscode:warning
      version-missing all:none shipped:error
      version-format all:warning load:info shipped:error vscode:info
      tags-missing all:none shipped:error
      capability-format all:error load:reported-error
      provider-wiring all:warning
      trigger-pattern all:error load:warning
      trigger-broad all:warning
      trigger-unusable all:error load:warning
      trigger-limit all:error load:warning
      variable-name all:error load:warning
      package-name all:error load:warning
      toolset-ref all:error load:warning
      schema-reference all:error load:warning
      config-ash all:info
      config-syntax all:error
      config-renamed all:warning
      config-unknown all:warning
      config-type all:warning
      config-refused all:error
      config-undeclared all:warning
      config-skill all:info
      config-source all:warning
      config-world-readable all:warning
      exports-unreadable all:warning
      lock-unreadable all:warning
      hidden-text-body all:warning shipped:error vscode:error
      dead-link all:warning shipped:error
      link-outside-skill all:info shipped:warning
      script-missing all:warning shipped:error
      toolset-missing all:warning shipped:error
      tab all:info
      long-line all:info
      todo-found all:warning shipped:error
      template-unedited all:warning shipped:error
      use-when-missing all:info shipped:warning
      description-overlap all:warning
      body-long all:warning load:info
      absolute-path all:warning load:info
      tool-unknown all:info"
    `);
  });

  it("has valid severities, a meaning and a fix in every row", () => {
    for (const [code, { severities, meaning, fix }] of Object.entries(FINDING_CODES)) {
      const { all, load, ...others } = severities;
      const allowed = ["error", "warning", "info", "none"];
      expect(allowed, code).toContain(all);
      expect([undefined, "reported-error", ...allowed], code).toContain(load);
      expect(Object.keys(others).filter((profile) => !PROFILES.some((known) => known === profile))).toEqual([]);
      expect(allowed, code).toEqual(expect.arrayContaining(Object.values(others)));
      expect(meaning, code).toMatch(/^\S.*\.$/);
      expect(fix, code).not.toBe("");
      expect(code).toMatch(/^[a-z0-9]+(-[a-z0-9]+)*$/);
    }
  });
});
