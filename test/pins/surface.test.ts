import { describe, expect, it } from "vitest";
import * as claude from "../../src/adapters/claude/index.ts";
import * as mcp from "../../src/adapters/mcp-server/index.ts";
import { EXIT } from "../../src/cli/command-definition.ts";
import * as install from "../../src/clients/index.ts";
import { DEFAULT_SETTINGS } from "../../src/config/settings.ts";
import * as library from "../../src/index.ts";
import { FINDING_CODES, FIXED_VARIABLES, ISOLATION_LEVELS, PROFILES, SCOPES, STOP_REASONS } from "../../src/index.ts";
import * as supply from "../../src/remote/index.ts";
import * as sandbox from "../../src/sandbox/index.ts";

describe("what others depend on", () => {
  it("is what skillet/mcp exports", () => {
    expect(Object.keys(mcp).sort()).toEqual([
      ...["createMcpServer", "createResultEnvelope", "formatWireName", "mountSkills"],
      ...["normalizeSchema", "openServing", "serveHttp", "serveStreams"],
    ]);
  });

  it("is what skillet/install and skillet/claude export", () => {
    expect(Object.keys(claude).sort()).toEqual(["createPromptHook", "evaluateWithClaude"]);
    expect(Object.keys(install).sort()).toEqual([
      "FORMATS",
      "NATIVE_CLIENTS",
      "SkillInstallationError",
      "apply",
      "createHermeticHome",
      "exportPath",
      "exportSkill",
      "installCopies",
      "installSkills",
      "openInstalls",
      "removeCopies",
      "targetOf",
    ]);
    expect(Object.keys(install.NATIVE_CLIENTS)).toEqual([
      ...["claude", "codex", "gemini", "opencode", "copilot", "vscode", "cursor", "agents"],
    ]);
    expect(Object.keys(install.EXPORT_FORMATS)).toEqual(["skill-zip", "agent-plugin"]);
  });

  it("is what skillet/supply exports", () => {
    expect(Object.keys(supply).sort()).toEqual([
      "addSkills",
      "adoptSkills",
      "checkSignature",
      "openSigners",
      "parseAddress",
      "parseLock",
      "printLock",
      "sayAddress",
      "scanFiles",
      "scanSkill",
      "signSkill",
      "subjectOf",
      "treeDigest",
      "treeOf",
      "verifySkills",
    ]);
  });

  it("is what the library exports", () => {
    expect(Object.keys(library).sort()).toEqual([
      "ASKS",
      "CODES",
      "FIXED_VARIABLES",
      "ISOLATION_LEVELS",
      "LEVELS",
      "PROFILES",
      "PromptValidationError",
      "RUN_STATES",
      "SCOPES",
      "STOPS",
      "SkillError",
      "SkillInstallationError",
      "SkillRefError",
      "TIERS",
      "Tool",
      "VisibilityExpansionRequired",
      "advise",
      "checkPath",
      "checkText",
      "closeMcpServers",
      "converse",
      "copySkill",
      "createAdviceMemory",
      "createAgentTools",
      "createEmbeddedMatcher",
      "createSettings",
      "defineSkill",
      "denials",
      "digestOf",
      "directorySource",
      "disclose",
      "discover",
      "evaluate",
      "evaluatePrompt",
      "findScript",
      "inlineSource",
      "locations",
      "markdown",
      "openAdviceFiles",
      "openApprovals",
      "openAudit",
      "openCapabilities",
      "openCatalog",
      "openGrants",
      "openMatcher",
      "openPromptSession",
      "openRuns",
      "openSession",
      "openStatistics",
      "openSystem",
      "openTrust",
      "openVault",
      "parseSkillMd",
      "planUse",
      "promptListing",
      "promptSection",
      "promptTemplate",
      "recall",
      "resumeChat",
      "resumeRun",
      "runScript",
      "sandboxPathOf",
      "scriptsOf",
      "selectShortlist",
      "skill",
      "skillContent",
      "skillRef",
      "skillResult",
      "skillsSection",
      "toSkillMd",
      "unavailability",
      "useSkill",
      "validateSkillFile",
      "watchCatalog",
      "wrapResult",
    ]);
  });

  it("is the exit codes, the profiles and the scopes", () => {
    expect(EXIT).toEqual({ fine: 0, findings: 1, usage: 2, refused: 3, limit: 4, waiting: 5, interrupted: 130 });
    expect(PROFILES).toEqual(["load", "agentskills", "shipped", "claude-upload", "vscode"]);
    expect(SCOPES).toEqual(["bundled", "integration", "installed", "user", "workspace", "inline"]);
  });

  it("is what the door to sandboxes exports", () => {
    expect(Object.keys(sandbox).sort()).toEqual(["bareSandbox", "openSandbox", "probeSandbox"]);
  });

  it("is how code is kept apart, what it always has, and what it may use", () => {
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

  it("is how a run ends, and what it may use", () => {
    expect(STOP_REASONS).toEqual([
      "answer",
      "complete",
      "failed",
      "refused",
      "max-steps",
      "timeout",
      "budget",
      "aborted",
      "waiting",
      "error",
    ]);
    expect(DEFAULT_SETTINGS.limits).toEqual({
      iterations: 10,
      mostIterations: 50,
      seconds: 900,
      nesting: 3,
      toolSeconds: 300,
      toolOutput: 12_000,
    });
  });

  it("is the codes and what each weighs by profile", () => {
    const weights = Object.entries(FINDING_CODES).map(([code, { weigh }]) => `${code} ${weigh}`);
    expect(weights.join("\n")).toMatchInlineSnapshot(`
      "not-found eeeee
      unreadable eeeee
      not-a-file eeeee
      not-a-folder eeeee
      link-broken eeeee
      link-loop eeeee
      link-outside wwewe
      hard-link-outside wwewe
      skill-file-shared eeeee
      file-skipped wwewe
      file-too-large eeeee
      not-utf8 eeeee
      body-encoding weeee
      not-written eeeee
      fix-refused wwwww
      file-case weeee
      file-name weeee
      file-mode wwewe
      too-many-files wwewe
      nearer-copy-broken wwwww
      nested-skill iiiii
      nested-skipped iiiii
      remote-unavailable wwwww
      remote-entry wwwww
      remote-limit wwwww
      remote-name-taken iiiii
      source-failed eeeee
      too-deep wwwww
      too-many-skills wwwww
      byte-order-mark iwwww
      line-ends iwwww
      leading-blank weeee
      leading-comment weeee
      delimiter-blanks iwwww
      frontmatter-missing eeeee
      frontmatter-unclosed eeeee
      frontmatter-language eeeee
      frontmatter-too-large eeeee
      frontmatter-type eeeee
      yaml-syntax eeeee
      yaml-repaired weeee
      yaml-duplicate weeee
      yaml-alias eeeee
      yaml-tag eeeee
      yaml-limit eeeee
      yaml-documents eeeee
      value-cut wwwww
      control-character eeeee
      hidden-text eeeee
      name-missing -eeee
      name-type weeee
      name-unusable weeee
      name-none eeeee
      name-reserved weeee
      name-lookalike weeee
      name-format ieeee
      name-device -wewe
      name-vendor ---e-
      name-differs ieewe
      name-case-clash wwwww
      description-missing eeeee
      description-type weeee
      description-too-long Eeeee
      description-long wwwww
      description-markup iwwew
      compatibility-too-long -eewe
      body-missing eeeee
      field-type weeee
      field-value weeee
      key-unknown ieeew
      key-misspelled weeee
      key-twice wwwww
      key-client -e-e-
      key-extension -e-ew
      key-other-client -e-ew
      key-top-level -e-ew
      key-author -eeew
      version-missing --e--
      version-format iwewi
      tags-missing --e--
      capability-format Eeeee
      provider-wiring wwwww
      trigger-pattern weeee
      trigger-broad wwwww
      trigger-unusable weeee
      trigger-limit weeee
      variable-name weeee
      package-name weeee
      toolset-ref weeee
      schema-reference weeee
      config-ash iiiii
      config-syntax eeeee
      config-unknown wwwww
      config-type wwwww
      config-refused eeeee
      config-undeclared wwwww
      config-skill iiiii
      config-source wwwww
      config-readable wwwww
      installs-unreadable wwwww
      lock-unreadable wwwww
      hidden-text-body wwewe
      dead-link wweww
      link-outside-skill iiwii
      script-missing wweww
      toolset-missing wweww
      tab iiiii
      long-line iiiii
      open-task wweww
      no-cue iiwii
      body-long iwwww
      absolute-path iwwww
      tool-unknown iiiii"
    `);
  });

  it("has a weight for each profile, a meaning and a fix in every row", () => {
    for (const [code, { weigh, means, fix }] of Object.entries(FINDING_CODES)) {
      expect(weigh, code).toMatch(/^[Eewi-][ewi-]{4}$/);
      expect(means, code).toMatch(/^\S.*\.$/);
      expect(fix, code).not.toBe("");
      expect(code).toMatch(/^[a-z0-9]+(-[a-z0-9]+)*$/);
    }
  });
});
