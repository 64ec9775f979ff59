import { listConfigKeys } from "../../src/config/config-keys.ts";

/** Every environment variable that is read, or passed to a program. */
const VARIABLES: readonly (readonly [names: readonly string[], means: string])[] = [
  [["AGENT_WORKSPACE_ROOT"], "the workspace, when `--workspace` is not given"],
  [["PATH"], "where `skillet connect` looks for clients, and starts none of them; where npm is looked for last"],
  [["SKILLS_DIR"], "takes the place of the bundled skills"],
  [["CUSTOM_SKILLS_DIR"], "takes the place of `<workspace>/skills`; relative to the workspace"],
  [["SKILLET_HOME"], "takes the place of `~/.skillet`"],
  [
    ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"],
    "the index of Python packages for [packages](packages.md): pip prefers its own variable, uv the others",
  ],
  [
    ["PIP_PROXY"],
    "the proxy that Python packages are fetched through, before `HTTPS_PROXY` ([packages](packages.md#python-and-npm-packages))",
  ],
  [
    ["SKILLET_PACKAGES"],
    "the folder to build packages in, in place of `~/.skillet/packages` (of root: `/var/lib/skillet/packages`)",
  ],
  [
    ["SKILLET_VAULT_PASSPHRASE_FILE"],
    "a file with the passphrase of the vault, where `capabilities.vault_passphrase_file` names none",
  ],
  [
    ["SKILLET_SIGNING_PASSPHRASE"],
    "the passphrase of the key that `skillet sign` signs with; without it, `skillet sign` asks",
  ],
  [
    ["SKILLET_TOKEN"],
    "the token of a server that `skillet connect --url` configures: clients read it from this variable",
  ],
  [
    ["SKILLET_CAPABILITY_SOCKET", "SKILLET_CAPABILITY_TOKEN"],
    "set by skillet for code of a skill with capabilities: the broker of its run",
  ],
  [["ANTHROPIC_API_KEY", "OPENAI_API_KEY"], "the key of a model whose `api_key` is not set"],
  [
    ["ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "OLLAMA_HOST"],
    "the address of the provider's API, unless `base_url` is set",
  ],
  [
    [
      ...["CODEX_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "COPILOT_GITHUB_TOKEN"],
      ...["COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_API_KEY", "COPILOT_MODEL", "COPILOT_OFFLINE"],
    ],
    "passed on to the agent of `skillet eval --agent`, as are the variables of Anthropic and OpenAI",
  ],
  [["ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"], "other ways to sign in, passed on to the Claude Agent SDK"],
  [
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"],
    "the collector that [traces](statistics.md) are sent to",
  ],
  [
    ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_PROTOCOL"],
    "how they are sent; `OTEL_EXPORTER_OTLP_TRACES_…` has precedence",
  ],
  [["OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"], "the name and attributes of the sender"],
  [["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"], "whether the content of messages is sent too"],
  [["OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER"], "`true`, `none`: nothing is sent"],
  [["TRACEPARENT"], "the span that runs belong to"],
  [["NO_COLOR", "FORCE_COLOR"], "no color, or color also without a terminal"],
  [["TERM"], "`dumb`: no color, and no line is rewritten"],
  [["GITHUB_WORKSPACE"], "set by GitHub Actions: paths in reports are relative to it, if it contains the workspace"],
  [["HOME"], "your home folder; one that is empty or relative is ignored"],
  [["PWD"], "the current folder in messages, if it was removed"],
  [["TMPDIR"], "where sockets and short-lived files are made"],
  [
    ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME", "APPDATA"],
    "where other clients have their skills and configurations",
  ],
  [
    ["XDG_STATE_HOME"],
    "where `npx skills` has its lock file, which [`skillet adopt`](supply.md#adopting-skills-that-you-have) reads",
  ],
  [
    ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"],
    "the way to the network, passed on to git and the Claude Agent SDK; pip and npm reach it through [a proxy of skillet](packages.md#python-and-npm-packages)",
  ],
  [
    ["GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "SSH_AUTH_SOCK", "LC_ALL", "LC_CTYPE"],
    "passed on to the program that they are for",
  ],
  [
    ["DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY"],
    "how the keyring of the system is reached",
  ],
  [
    ["XDG_CURRENT_DESKTOP", "XDG_SESSION_TYPE", "XDG_DATA_DIRS", "XAUTHORITY", "USER", "LANG"],
    "passed on to the program that opens a page on the desktop",
  ],
  [["SSH_CONNECTION", "CI"], "set: `skillet studio` opens no page on the desktop"],
];

export function configPage(): string {
  const rows = listConfigKeys().map(
    ({ path, type, means, isForWorkspace }) =>
      `| \`${path}\` | ${type} | ${means} | ${isForWorkspace ? "yes" : "no"} |`,
  );
  return `# Configuration

This page is generated from the table of keys.

The configuration is TOML: \`~/.skillet/config.toml\` (\`SKILLET_HOME\` moves the folder), then \`.skillet/config.toml\` in the workspace,
which may set only the keys marked here; any other key in it is refused with its line. An unknown key is a warning with the nearest
known one. A file that is not valid TOML is reported with its line, and defaults are used instead. An editor
completes and checks it with \`skillet schema config\`. Keep the file private
(\`chmod 600\`): \`skillet doctor\` warns if other users can read values in it.

\`~/.ash/config.toml\` is read with lower precedence than both, if it exists: only its tables \`[skills.…]\` and \`[capabilities.providers.…]\`. \`skillet config\` shows each
value with its file, and the finding \`config-ash\` reports that the file is read.

| key | type | meaning | workspace |
|---|---|---|---|
${rows.join("\n")}

\`*\` stands for a name: of a skill, a source, a model's alias, a model at its provider, or a namespace of capabilities. \`UPPER_CASE\` is the
exact name of a variable. A workspace cannot enable a skill or feature that you disabled, and its numbers count only if they are lower.
\`skillet config\` shows the values in effect and their files; \`skillet config set KEY VALUE\` writes one.

\`\`\`toml
[skills.research]
enabled = true
model = "fast"
PERPLEXITY_API_KEY = "…"              # or "env:NAME", an environment variable; or "file:PATH", the text of a file
network = ["api.perplexity.ai:443"]  # hosts that its scripts may reach
workspace = "read"                   # access of its scripts to the workspace

[models.fast]
provider = "anthropic"
model = "claude-haiku-4-5"
api_key = "env:ANTHROPIC_API_KEY"

[prices."claude-haiku-4-5"]          # dollars per million tokens
input = 1.0
output = 5.0

[limits]
max_iterations = 20
tokens = 200000

[scripts]
timeout_seconds = 120

[sources.team]
path = "~/team-skills"
\`\`\`

## Values and the copy they are for

\`\`\`sh
skillet config set skills.research.PERPLEXITY_API_KEY < key.txt
skillet config set skills.research.PERPLEXITY_API_KEY --for research@bundled < key.txt
\`\`\`

The values under \`[skills.<name>]\` (variables, \`network\`, \`workspace\`, \`dynamic_commands\`, capabilities) are for one copy of the skill, which
\`~/.skillet/grants.json\` records. [Another copy with the same name](trust.md#values) is refused.

| \`config set\` finds | the values are for |
|---|---|
| a recorded copy | that one, as before |
| one copy | that one, from now on |
| several copies | the one that you choose at the terminal, or name with \`--for NAME@SOURCE\`; without either, nothing is set |
| no copy | none yet |

Values without a record, such as those that you write into the file by hand, are never given to a copy just because it is used. The next run asks at a terminal. Otherwise it is
refused with the command to run: \`skillet trust --secrets NAME\`, with \`--yes\` in a script. Skills that come with skillet, and those of an embedding program, need no
record until one exists.

## Changes while something runs

\`\`\`sh
skillet disable research
\`\`\`

Running servers, chats, runs and \`skillet list --watch\` follow both files: a change is in effect within 2 seconds, without a restart. The commands that write them
(\`disable\`, \`enable\`, \`capability grant\`, \`capability ungrant\`, \`config set\`, \`config unset\`) wait for the servers and chats that
run on this machine, and print how many have the change. One that does not answer is named with its process id.

| change | sessions, chats and runs that start later | a run in progress |
|---|---|---|
| \`enabled\` of a skill | yes; a session that has loaded it loses its tools, and its client is notified | no further tool call of that skill, nor of skills that its run started |
| capabilities, providers, quotas | yes | at its next call |
| \`tools.disabled\`, \`tools.mcp.*.enabled\` | yes | at its next call |
| which chats may use a skill | yes | when it uses another skill |
| values of variables, model aliases and keys, limits, sandbox, network | yes | keeps the values it started with |
| \`sources\` | yes | keeps the skills it started with |

A started script runs to its end. Environment variables (\`env:NAME\`) are those of the process when it started.

**Mistakes.** While something runs, a mistake in a file never loosens anything. If a file is not valid TOML, the previous configuration stays in
effect. If a value has the wrong type, the previous value of that key stays. A server warns once on stderr, with file and line, and a chat before
its next answer. Both recover when the file is fixed. A change is applied once nothing has written to the file for 100 ms, so an incomplete file is
never read.

Settings that your program provides are not watched: see [embedding](embedding.md#find).

## Environment variables

| variable | effect |
|---|---|
${VARIABLES.map(([names, means]) => `| ${names.map((name) => `\`${name}\``).join(", ")} | ${means} |`).join("\n")}
`;
}
