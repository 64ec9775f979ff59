import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { anthropic } from "./models/anthropic.mjs";
import { chat } from "./models/chat.mjs";
import { gemini } from "./models/gemini.mjs";
import { responses } from "./models/responses.mjs";

const installed = join(import.meta.dirname, "node_modules");

const PROMPT = "Greet Ada: list the skills, load the one that greets, and call its tool.";
/** A key that no provider knows: requests must reach only the local model. */
const KEY = "key-of-nobody";

/**
 * One row per client: its package, the protocol of its model, the file that `skillet connect` writes the server to, additional
 * settings (`more`), and its non-interactive start: for the scripted conversation (`start`), and for one prompt (`ask`).
 */
export const CLIENTS = [
  {
    name: "claude",
    package: "@anthropic-ai/claude-agent-sdk",
    protocol: anthropic,
    config: ".claude.json",
    more: (text) => text,
    start: ({ path, url }) => ({
      command: [process.execPath, join(import.meta.dirname, "claude-agent.mjs"), join(path, ".claude.json"), PROMPT],
      env: { ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: KEY, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1" },
    }),
    program: () => [claude()],
    addPlugin: (market, plugin) => [
      ["plugin", "marketplace", "add", market],
      ["plugin", "install", plugin],
    ],
    ask: ({ url, prompt }) => ({
      command: [claude(), "-p", prompt, "--model", "claude-sonnet-4-5", "--max-turns", "3"],
      env: { ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: KEY, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1" },
    }),
    agent: (url) => ({
      command: [claude(), "-p", "{prompt}", "--model", "claude-sonnet-4-5", "--output-format", "json"],
      env: { ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: KEY },
    }),
    transcripts: ".claude/projects",
  },
  {
    name: "codex",
    package: "@openai/codex",
    // Without it, `codex exec` refuses every tool that is not read-only.
    connectOptions: ["--approve-tools"],
    protocol: responses,
    config: ".codex/config.toml",
    more: (text, url) => `model = "gpt-5"
model_provider = "loopback"
approval_policy = "never"
check_for_update_on_startup = false

${text}
[model_providers.loopback]
name = "loopback"
base_url = "${url}/v1"
wire_api = "responses"
env_key = "LOOPBACK_KEY"

[analytics]
enabled = false
`,
    start: () => ({
      command: [
        ...[process.execPath, join(installed, ".bin", "codex"), "exec", "--json", "--skip-git-repo-check"],
        ...["--dangerously-bypass-hook-trust", PROMPT],
      ],
      env: { LOOPBACK_KEY: KEY },
    }),
    program: () => [process.execPath, join(installed, ".bin", "codex")],
    addPlugin: (market, plugin) => [
      ["plugin", "marketplace", "add", market],
      ["plugin", "add", plugin],
    ],
    ask: ({ prompt }) => ({
      command: [
        ...[process.execPath, join(installed, ".bin", "codex"), "exec", "--json", "--skip-git-repo-check"],
        // A hook that the user has not trusted is skipped silently.
        ...["--dangerously-bypass-hook-trust", prompt],
      ],
      env: { LOOPBACK_KEY: KEY },
    }),
    agent: (url) => ({
      command: [
        ...[join(installed, ".bin", "codex"), "exec", "--json", "--skip-git-repo-check"],
        // A test machine may not have the requirements of its sandbox.
        ...["--dangerously-bypass-approvals-and-sandbox", "-c", "model=gpt-5", "-c", "model_provider=loopback"],
        ...["-c", `model_providers.loopback=${loopback(url, "OPENAI_API_KEY")}`, "{prompt}"],
      ],
      env: { OPENAI_API_KEY: KEY },
    }),
    transcripts: ".codex/sessions",
  },
  {
    name: "gemini",
    package: "@google/gemini-cli",
    protocol: gemini,
    config: ".gemini/settings.json",
    more: inJson(() => ({
      security: { auth: { selectedType: "gemini-api-key" } },
      privacy: { usageStatisticsEnabled: false },
      general: { enableAutoUpdate: false },
    })),
    start: ({ url }) => ({
      command: [
        ...[process.execPath, join(installed, ".bin", "gemini")],
        ...["--model", "gemini-2.5-flash", "--yolo", "--skip-trust", "--prompt", PROMPT],
      ],
      env: { GEMINI_API_KEY: KEY, GOOGLE_GEMINI_BASE_URL: url },
    }),
    ask: ({ url, prompt }) => ({
      command: [
        ...[process.execPath, join(installed, ".bin", "gemini")],
        ...["--model", "gemini-2.5-flash", "--yolo", "--skip-trust", "--prompt", prompt],
      ],
      env: { GEMINI_API_KEY: KEY, GOOGLE_GEMINI_BASE_URL: url },
    }),
    agent: (url) => ({
      command: [
        ...[join(installed, ".bin", "gemini"), "--model", "gemini-2.5-flash", "--yolo", "--skip-trust"],
        ...["--output-format", "json", "--prompt", "{prompt}"],
      ],
      env: { GEMINI_API_KEY: KEY, GOOGLE_GEMINI_BASE_URL: url },
      // With another base URL, it uses the key only if its settings request that.
      settings: { ".gemini/settings.json": '{ "security": { "auth": { "selectedType": "gemini-api-key" } } }' },
    }),
  },
  {
    name: "opencode",
    package: "opencode-ai",
    protocol: chat,
    config: ".config/opencode/opencode.json",
    more: inJson((url) => ({
      autoupdate: false,
      model: "loopback/model",
      provider: {
        loopback: {
          npm: "@ai-sdk/openai-compatible",
          options: { baseURL: `${url}/v1`, apiKey: KEY },
          models: { model: { name: "model", tool_call: true } },
        },
      },
    })),
    start: () => ({
      command: [opencode(), "run", "--print-logs", PROMPT],
      env: { OPENCODE_DISABLE_MODELS_FETCH: "1", OPENCODE_DISABLE_LSP_DOWNLOAD: "1" },
    }),
    ask: ({ prompt }) => ({
      command: [opencode(), "run", "--print-logs", prompt],
      env: { OPENCODE_DISABLE_MODELS_FETCH: "1", OPENCODE_DISABLE_LSP_DOWNLOAD: "1" },
    }),
  },
  {
    name: "copilot",
    package: "@github/copilot",
    protocol: chat,
    config: ".copilot/mcp-config.json",
    more: (text) => text,
    start: (given) => copilot({ ...given, prompt: PROMPT }),
    program: () => [process.execPath, join(installed, ".bin", "copilot")],
    addPlugin: (market, plugin) => [
      ["plugin", "marketplace", "add", market],
      ["plugin", "install", plugin],
    ],
    ask: copilot,
  },
];

function copilot({ url, prompt }) {
  return {
    command: [
      ...[process.execPath, join(installed, ".bin", "copilot"), "-p", prompt],
      ...["--allow-all-tools", "--trust-folder", "--no-auto-update", "--disable-builtin-mcps", "--stream", "off"],
    ],
    env: {
      COPILOT_PROVIDER_BASE_URL: `${url}/v1`,
      COPILOT_PROVIDER_API_KEY: KEY,
      COPILOT_MODEL: "gpt-4.1",
      COPILOT_OFFLINE: "true",
    },
  };
}

/** Adds the local model to a client's configuration, and keeps the other settings. A home may be used several times. */
export function setUp({ config, more }, home, url) {
  const file = join(home.path, config);
  home.configured ??= existsSync(file) ? readFileSync(file, "utf8") : config.endsWith(".toml") ? "" : "{}";
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, more(home.configured, url));
}

/** Formats a model provider as an inline table of TOML. */
function loopback(url, key) {
  return `{name="loopback",base_url="${url}/v1",wire_api="responses",env_key="${key}"}`;
}

/** Returns the program of Claude Code, which is in the package of the platform. */
function claude() {
  const name = `claude-agent-sdk-${process.platform}-${process.arch}`;
  const paths = ["", "-musl"].map((kind) => join(installed, "@anthropic-ai", name + kind, "claude"));
  return paths.find((path) => existsSync(path)) ?? name;
}

function inJson(more) {
  return (text, url) => JSON.stringify({ ...JSON.parse(text), ...more(url) }, null, 2);
}

/** Returns its program in the package of the platform: an install script would create the launcher, but none runs. */
function opencode() {
  const [platform, program] =
    process.platform === "win32" ? ["windows", "opencode.exe"] : [process.platform, "opencode"];
  const name = `opencode-${platform}-${process.arch}`;
  const paths = ["-baseline", "", "-baseline-musl", "-musl"].map((kind) =>
    join(installed, name + kind, "bin", program),
  );
  return paths.find((path) => existsSync(path)) ?? name;
}
