import { existsSync } from "node:fs";
import { join } from "node:path";
import { anthropic } from "./models/anthropic.mjs";
import { chat } from "./models/chat.mjs";
import { gemini } from "./models/gemini.mjs";
import { responses } from "./models/responses.mjs";

const installed = join(import.meta.dirname, "node_modules");

const PROMPT = "Greet Ada: list the skills, load the one that greets, and call its tool.";
/** No provider knows it: nothing but the model here is to be asked. */
const KEY = "key-of-nobody";

/**
 * A row a client: its package, the protocol of its model, the file that `skillet mcp-config --write` puts the server into, what
 * has to stand there too (`more`), and how it is started for one answer, with nobody there to be asked.
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
  },
  {
    name: "codex",
    package: "@openai/codex",
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
        // Without it, it refuses every tool that does more than read.
        ...["--config", 'mcp_servers.skillet.default_tools_approval_mode="approve"', PROMPT],
      ],
      env: { LOOPBACK_KEY: KEY },
    }),
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
  },
];

function inJson(more) {
  return (text, url) => JSON.stringify({ ...JSON.parse(text), ...more(url) }, null, 2);
}

/** Its launcher is made by an install script, and none is run: the program lies in the package of the platform. */
function opencode() {
  const [platform, program] =
    process.platform === "win32" ? ["windows", "opencode.exe"] : [process.platform, "opencode"];
  const name = `opencode-${platform}-${process.arch}`;
  const paths = ["-baseline", "", "-baseline-musl", "-musl"].map((kind) =>
    join(installed, name + kind, "bin", program),
  );
  return paths.find((path) => existsSync(path)) ?? name;
}
