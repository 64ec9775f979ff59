/** Every line that the product must satisfy. A test that proves one has its id in its title: `[W-01] …`. */
export const REQUIREMENTS: Readonly<Record<string, string>> = {
  "W-01": "Skills are found in `<workspace>/skills/`.",
  "W-02": "Directory form `skills/<name>/SKILL.md` (preferred).",
  "W-03": "Flat form `skills/<name>.md`.",
  "W-04": "Pure YAML form `skills/<name>.yaml` and `.yml`, with the body under `instructions:`.",
  "W-05":
    "A definition carries name, description, instructions, preferred_model, required_tools, input_schema, max_iterations. Reading: `preferred_model` is a spelling of `model`; with both, `model` wins and lint reports it.",
  "W-06": "A registry discovers skills and answers get (error if absent), has, list names, definitions for a model.",
  "W-07": "Execution is a sub-agent loop whose system prompt is the skill's instructions.",
  "W-08": "`list_skills` and `use_skill` are offered to the model as tools.",
  "W-09": "A skill names models by alias (`fast`, `default`), resolved in the configuration.",
  "W-10": "Every tool in `required_tools` is checked before anything runs.",
  "W-11": "The result goes back to the calling agent.",
  "W-12": "`input_schema` (JSON Schema) validates the input; its `default` values are applied.",
  "W-13": "`max_iterations` is per skill. Reading: default 10 (S-12), configurable globally.",
  "W-14": "Each execution is logged with duration and iteration count.",
  "W-15":
    "An unknown model alias falls back to the default model, with a warning that names the alias and those that exist.",
  "W-16": "The name defaults to the directory name or the file's stem.",
  "W-17":
    "A skill may call another through `use_skill`: depth is bounded, a cycle is refused with a clear error, budgets are shared.",
  "W-18": "The skill folders are watched and reloaded on change.",
  "W-19": "Usage statistics are kept per skill.",
  "W-20":
    "`list_skills` returns a JSON list of names and descriptions; an empty folder gives an empty list and no error. Reading: the entries also carry version and tags (P-09); people see the same formatted.",
  "W-21": "At max_iterations the partial result comes back with a message that says the limit was reached.",
  "W-22": "`Skill 'NAME' not found`.",
  "W-23": "`Skill requires tool 'NAME' which is not available`.",
  "W-24": "`Invalid input: DETAILS`.",
  "W-25":
    "Missing frontmatter, missing description, empty instructions: each a warning that names the file and the reason, and the skill is skipped; the others load.",
  "W-26": '`chat "List available skills"` and `chat "Use the test skill"` work from the command line.',
  "W-27":
    "The caller's context (session id, user id, chat id, chat type) goes with each use, reaches policies, events and the run's record, and is never taken from the model's arguments.",
  "W-28":
    "Every use returns one shape: content, isError, iterations (and how it stopped); a refusal or failure is such a result, never an exception.",
  "W-29":
    "The workspace is `--workspace DIR`, else `AGENT_WORKSPACE_ROOT`, else the current folder; `./workspace/skills` is searched too, so that the document's verification commands work as written.",
  "W-30":
    "A comment or label line before the frontmatter (`<!-- … -->`, `# …`) loads with a diagnostic; `check --fix` removes it.",
  "W-31":
    "When a nearer copy of a skill fails to load, every command that uses a farther copy prints a warning with the file and the reason.",
  "S-01":
    "Sources in rising precedence: bundled, integration, installed, user, workspace. The later one overrides; shadowed skills stay visible to the user.",
  "S-02": "Bundled skills go through the same parser and rules as any other, with no privileged wiring.",
  "S-03":
    "A skill is invoked with `use_skill`; the main agent never needs to read its file. Reading: `load_skill` (P-10) is the second verb, for instructions that belong in the conversation.",
  "S-04":
    "Each run has an isolated session: it sees its own instructions and what the caller passed, not the caller's history.",
  "S-05":
    "`env:` names variables; the values come from `[skills.<name>]` in the configuration and exist only inside that run.",
  "S-06": "A declared variable without a value is an error that says which key to add to which section of which file.",
  "S-07":
    "`allowed_tools` is a whitelist (empty = all). A call outside it is blocked with an error the sub-agent sees.",
  "S-08": "`model` overrides the model; the configuration overrides the skill.",
  "S-09": "`max_iterations` limits the loop; beyond it a partial result with the error flag set.",
  "S-10": "`enabled = false` in the configuration hides the skill from prompts and makes it not invocable.",
  "S-11":
    "`use_skill` takes `skill`, `message`, `context`. Reading: also `input` (W-12); one tool, all optional but `skill`.",
  "S-12": "max_iterations defaults to 10.",
  "S-13":
    "the result is structured for the model: an `<instruction>` block that says it comes from the named skill and that the user has not seen it, then `<output>`; with `iterations`. Text in the output cannot close or forge these tags.",
  "S-14":
    "the system prompt lists available skills: a heading, two sentences on when to invoke, then `- **name**: description`, with the sandbox path where one is mounted.",
  "S-15":
    "Frontmatter: description, authors, rationale, sensitive, access.chat_types, env, packages, capabilities, allowed_tools, model, max_iterations.",
  "S-16": "`sensitive: true` means private chats only, unless `access.chat_types` says otherwise.",
  "S-17": "`access.chat_types` is an allowlist of invoking chat types.",
  "S-18": "`allow_chat_ids` per skill overrides `[skills.defaults].allow_chat_ids`.",
  "S-19":
    "Configuration is TOML: `[skills.<name>]` with model, enabled, allow_chat_ids, UPPER_CASE keys as variables (exact names, no case conversion), `capability_provider` table; `[skills.defaults]`.",
  "S-20": "Capability ids are namespaced (`gog.email`); a bare id is refused by validation.",
  "S-21":
    "`[skills.<name>.capability_provider]` (enabled, namespace, command, timeout_seconds) wires a host-owned provider process; `[capabilities.providers.<ns>]` does so directly; explicit values override a preset's.",
  "S-22": "`[skills.gog] enabled = true` is enough to wire the bundled `gog` skill and its provider.",
  "S-23": "Before a run, every declared capability must be visible in the caller's context, else an error.",
  "S-24":
    "Inside a run, capabilities are invoked through a command in the sandbox; identity comes from a token the host issued for that run and verifies on each call; the skill never sees provider credentials.",
  "S-25":
    "Skills have no path into host hooks or internals: only tools, the capability contract and the sandbox command.",
  "S-26": "`packages:` are system packages (apt) installed into the sandbox when it is built, not at run time.",
  "S-27":
    "Python scripts with inline dependencies (PEP 723) run with `uv run`; `uvx` runs Python tools. Reading: the sandbox uses them when `uv` is present and says clearly when it is not.",
  "S-28": "`skill list` and `skill validate <path>` on the command line.",
  "S-29":
    "Registry: list_names includes unavailable skills, list_available does not (S-34), validate_skill_file checks without loading.",
  "S-30": "Invocations are logged with iteration counts; usage statistics are kept.",
  "S-31":
    "The end-to-end check: a skill with `env: [TEST_API_KEY]`, `allowed_tools: [bash]`, the key in the configuration, and a run that prints `Key: test-secret-123`. Reading: outside the run the value is shown as `[TEST_API_KEY]`, and verbatim with `--show-secrets`; a workspace skill needs `skillet trust` first.",
  "S-32":
    "Errors for: not found, disabled, missing variable, capability unavailable, iteration limit, blocked tool: each its own, each actionable.",
  "S-33":
    "Integration skills come from Sources that the embedding program registers; installed ones live in `~/.skillet/installed/` and get there with `skillet add` from a folder, an archive or a repository; both are rows of the locations table and of `doctor`.",
  "S-34":
    "list_available omits skills that cannot run on this system (disabled, missing tool, interpreter, sandbox or package support, other OS), each with its reason in `list --all`; such skills are not offered to models anywhere.",
  "S-35":
    "Provider wiring in a skill's frontmatter is never read; a diagnostic says that it belongs in the configuration.",
  "S-36":
    "The terminal and stdio MCP are a `private` chat; over HTTP and in the library the host states type and id; where none is stated, a skill with `sensitive` or `access` is refused. `allow_chat_ids` absent means the defaults', empty means no restriction.",
  "S-37": "`ash-sb` is a spelling of the sandbox command, `~/.ash/skills` a user location.",
  "S-38":
    "`defaults` is a reserved skill name; an UPPER_CASE key that the skill does not declare is not injected, and `config` reports it.",
  "S-39":
    "`model:` takes a configured alias, a built-in one (`fast`, `haiku`, … of the detected provider) or `provider/model`; only then W-15.",
  "S-43": "`uv run` and `uvx` in a run's shell use the prefetched layer.",
  "S-45": "Users can give packages (system, Python, npm) to skills they did not write, locked and offline.",
  "P-01": "Discovery reads frontmatter only; instructions stay unloaded until asked for.",
  "P-02":
    "Two roots by environment: `SKILLS_DIR` replaces the shipped folder, `CUSTOM_SKILLS_DIR` (relative to `AGENT_WORKSPACE_ROOT`) replaces `<workspace>/skills`.",
  "P-03": "Custom overrides shipped, deterministically.",
  "P-04": "A source directory is scanned recursively by default; recursion can be turned off.",
  "P-05":
    "Parsing: delimiters are whole lines `---`; a `---` inside a value or the body is safe; no frontmatter gives empty metadata and the whole text.",
  "P-06":
    "A missing or empty directory is an empty result; a file that fails to parse is a warning, never an exception.",
  "P-07": "A prompt fragment lists the discovered skills; it is the empty string without skills.",
  "P-08": "One call makes a toolset and its prompt fragment from directories.",
  "P-09": "`list_skills` shows name, description, version, tags.",
  "P-10": "`load_skill(name)` returns the full instructions, cached, and re-read when the file has changed.",
  "P-11":
    "`read_skill_resource(skill, resource)` reads only files listed at discovery; traversal, absolute paths and links out of the folder are refused.",
  "P-12":
    "`validate_skill(name)`: structure and metadata; supported top-level keys; extensions live under `metadata`. Reading: validation has profiles (the open standard, each client, this product's own); P's rules (`metadata.version`, `metadata.tags` required) are the `shipped` profile.",
  "P-13": "`lint_skill(name)`: style problems in the instructions, each with a rule id, line and a way to fix it.",
  "P-14": "Every skill tool carries the category `skills`.",
  "P-15": "In the `shipped` profile, a skill without `name` is refused; otherwise W-16 holds.",
  "P-16":
    "Shipped skills meet their contract (non-empty SKILL.md, kebab-case name, description, SemVer version, tags, no dead internal references, parseable, toolset registers), proven by tests in CI.",
  "P-17": "A shipped `skillmaker` skill with a template and a quality checklist.",
  "P-18":
    "Over MCP, a skill's tools are exposed per skill, mounted when the skill is activated and unmounted when it is deactivated, with the client notified.",
  "P-19": "Tool names are prefixed with the skill's name, so two active skills never collide.",
  "P-20": "Name mapping, schema normalisation and the result envelope are pure functions without I/O.",
  "P-21": "Activation by topic: a topic activates the skills that match it.",
  "P-22": "A shipped `github` skill whose outputs are marked as untrusted (taint) and cannot steer privileged calls.",
  "P-23":
    "version, tags and author are read from the top level or from `metadata`; `author` and `authors` are one field.",
  "P-24": "A shipped skill's files cannot change without its `metadata.version`: a digest pin fails the tests.",
  "P-25":
    "An activated skill with scripts or a toolset mounts them as `<skill>.<tool>`; one that can be used mounts `<skill>.run`.",
  "T-01":
    "Manifest fields: name (letters, digits, hyphens, at most 64), description (at most 500; reading: a warning above 500, an error above the standard's 1024), version (SemVer), toolsets, scripts, triggers.keywords, triggers.verbs, triggers.patterns, default_enabled (true), brief_description (first sentence of the description if absent).",
  "T-02":
    "Keywords and verbs match on word boundaries, in any script and case; patterns are regular expressions that cannot hang the process.",
  "T-03": "Rank: explicit mention, then exact phrase, then recent usage; deterministic ties.",
  "T-04": "The top `max_skills` (default 3) are injected.",
  "T-05":
    'Tier 0: nothing, when no skill is visible. Reading: the document\'s "or no match" is T-06 where skills have triggers, T-07 where some have none.',
  "T-06": "Tier 1: `[N skills available]`, when skills have triggers and none matches.",
  "T-07":
    "Tier 2: names and descriptions within the listing budget (A-02, A-03), when the user asks for all skills, or nothing matches and a visible skill has no triggers.",
  "T-08": "Tier 3: the full instructions of the skills that match.",
  "T-09":
    "Budgets hold: about 10 tokens for tier 1; for tier 2 the listing budget, where about 15 tokens a skill is the floor when everything is shortened.",
  "T-10":
    "Sources: bundled, `~/.agent/skills/`, `./.agent/skills/`. Reading: these are user and workspace locations in the one precedence order.",
  "T-11":
    '`toolsets: ["path:Export"]` resolves inside the skill\'s folder, imports the module (TypeScript or JavaScript), takes the named export (an array of tools, or a class that gives one) and registers its tools.',
  "T-12":
    "`Tool.define(id, { description, parameters: zod, execute(args, ctx) → { title, metadata, output } })`; a toolset in a user's folder can import the tool helper and zod without installing anything.",
  "T-13":
    "A toolset that fails to load (missing file, missing export, throw, bad schema) disables that skill's tools with a clear diagnostic, nothing else.",
  "T-14":
    "Scripts run as isolated subprocesses (the document names Bun; ours by shebang or extension): 60 s, 1 MiB of output (both streams together), 100 arguments, 4096 bytes for all arguments together, working directory = the skill's folder; each limit enforced, reported and configurable.",
  "T-15":
    "`default_enabled: false` keeps a bundled skill out of prompts and uses until `[skills.<name>] enabled = true`.",
  "T-16":
    "A script's text never enters the context, only its name, description and usage; its dependencies are its own; a `scripts:` entry is a path or `{ path, name, description }`.",
  "N-01":
    "A skill can be defined in code: name, description, title, template, key, defaultParams, children, enabled, tools, acceptsOverrides, summary, visibility.",
  "N-02":
    "name `^[a-z0-9][a-z0-9-]{0,63}$`; description 1 to 1024 characters with no XML tags; title and template not empty: else a PromptValidationError at construction.",
  "N-03": "The default summary is `[Skill: NAME] DESCRIPTION`.",
  "N-04":
    "Templates substitute `$name`, `${name}` and `$$` from typed parameters; a missing parameter is an error that names it.",
  "N-05":
    "toSkillMd(params) renders frontmatter and body; its output parses back to the same name, description and body.",
  "N-06": "SkillRef(path, basePath, enabled): resolvedPath, skillMdPath, name, description, isEnabled, validate.",
  "N-07":
    "A ref is validated when constructed; a disabled one, when it becomes enabled. SkillRefError carries path, reason (not_found, not_directory, missing_skill_md, invalid_frontmatter), details.",
  "N-08":
    "SkillsSection holds inline skills and refs and answers allSkills, inlineSkills, referencedSkills, nativeSkills, promptSkills.",
  "N-09": "Duplicate names, inline and referenced together, are a PromptValidationError.",
  "N-10":
    "installSkills writes native inline skills as SKILL.md and copies refs whole: permissions kept, links followed and copied as files; it returns the paths.",
  "N-11": "Native and referenced skills are then absent from the prompt; skills with tools stay, as SUMMARY.",
  "N-12":
    "Without isolation everything renders as SUMMARY, nothing is installed, and the warning `Skills installation requires hermetic isolation` is logged; `installSkills: false` does the same without the warning.",
  "N-13": "the SUMMARY suffix names the `open_sections` tool, the dotted key and the tools it unlocks.",
  "N-14":
    "`open_sections` raises VisibilityExpansionRequired; the session records it; the next render is FULL and exposes the tools.",
  "N-15": "`open_sections` is injected exactly when something is summarised.",
  "N-16": "enabledSkills filters by name.",
  "N-17": "A skill's `enabled(params)` and a ref's `enabled()` decide at render time.",
  "N-18": "Events SkillsInstalled and SkillExpanded carry the fields the document lists.",
  "N-19":
    "SkillInstallationError carries skillName, skillsDir, source (inline or ref), cause; a failed installation leaves nothing half-written.",
  "N-20":
    "The hermetic home holds `.claude/settings.json` (sandbox and network settings) and `.claude/skills/`; it is private, and removed afterwards.",
  "N-21":
    "Evaluated through the Claude Agent SDK: native skills are found by Claude itself, and tools of prompt skills are reached through MCP.",
  "N-22": "All six user stories run as examples.",
  "N-23":
    "Defaults: visibility SUMMARY, acceptsOverrides true; `hasTools`; `summary` is a template. SkillsSection: title `Skills`, key `skills`, mixed `skills`, `skillRefs`, its own `enabled(params)`.",
  "N-24": "Templates are dedented and trimmed before substitution.",
  "N-25": "A ref's frontmatter must hold `name` (N-02's pattern) and `description`, else invalid_frontmatter.",
  "N-26":
    "promptTemplate({ ns, key, sections }), markdown(…), bind(params); an unbound section is an error that names it.",
  "N-27":
    "A tool handler gets typed parameters and a context and returns message and value; `value.render()` is what the model reads.",
  "N-28": "Installed native skills cannot be changed by the evaluated agent.",
  "N-29": "An isolated evaluation sees exactly the declared and enabled skills.",
  "X-01":
    "`disable-model-invocation: true` hides a skill from the model; a person can still invoke it by name. `user-invocable: false` is the reverse.",
  "X-02":
    "`$ARGUMENTS`, `$ARGUMENTS[N]`, `$1`…, named `arguments`, `${SKILL_DIR}` and `${CLAUDE_SKILL_DIR}` are substituted when a skill is loaded or used; substituted text is not expanded again; a literal `$5` in prose survives when no argument was given.",
  "X-03":
    "`context: fork` makes loading delegate to `use`; `agent`, `effort`, `disallowed-tools` are honoured or reported as not supported, never silently dropped.",
  "X-04":
    "`allowed-tools` in its three notations; `Bash(git:*)` is matched per sub-command: separators, pipes and substitutions cannot smuggle another one.",
  "X-05":
    "Requirements declared in `metadata.openclaw.requires` (bins, env, os) and `metadata.requires` are set-up denials with their fix.",
  "X-06":
    "Dynamic commands in a body (`` !`cmd` ``) run only for trusted skills where the operator allowed them, in the sandbox; otherwise the text says that they were not run.",
  "X-07": "`paths` globs and `when_to_use` take part in matching and disclosure.",
  "Q-01":
    "A skill's process, its children, and every `/proc` entry it can read show only the declared variables plus a documented fixed set; no secret is on any command line",
  "Q-02": "Two runs share no processes, no writable files, no IPC",
  "Q-03":
    "A secret or capability granted to a skill from one source is never given to a same-named skill from another without a new grant",
  "Q-04": "Code of an untrusted workspace does not run; nothing in a workspace can grant trust or weaken the sandbox",
  "Q-05": "Text in a skill cannot add tools, variables, capabilities, network or budget to its run",
  "Q-06":
    "Metadata put into a prompt is length-bounded, one line, escaped; output of a skill cannot forge the tags that wrap it",
  "Q-07":
    "Output of skills, resources and providers is labelled untrusted; it cannot by itself select a tool, a skill, a path or a mutating operation",
  "Q-08":
    "No invisible or direction-changing character reaches the model unannounced (emoji joiners, flags and Persian ZWNJ pass)",
  "Q-09": "No read leaves the skill's folder, also under concurrent renames and links",
  "Q-10":
    "Any frontmatter up to 64 KiB is accepted or refused within 50 ms, without running code or touching global prototypes; a larger one is refused",
  "Q-11": "Trigger matching is linear in the query's length",
  "Q-12": "An installation writes inside its target only, wholly or not at all",
  "Q-13":
    "The isolation level is in every result; it is never lowered silently; if the configured level is unavailable the run is refused with the fix",
  "Q-14": "No network inside a run, except what was granted",
  "Q-15":
    "On time-out, abort, output overflow or the host's death every descendant is dead within a second (strong level)",
  "Q-16":
    "Output is at most 1 MiB, truncation is flagged, always valid UTF-8; at most 100 arguments and 4096 bytes for all of them, no shell in between",
  "Q-17":
    "Memory, processes and disk are bounded: per tree with cgroups, per process otherwise, and the result names which",
  "Q-18":
    "`packages` resolve to a lock of name, version and SHA-256; the host's own packages are never changed; package scripts run sandboxed and offline",
  "Q-19":
    "A broker call succeeds only if this skill declared the capability, the operator granted it, the caller's context allows it and the input fits its schema; identity comes from the run, never from a field of the request",
  "Q-20": "A credential for one run, skill, audience or nonce is worthless for any other, and after the run",
  "Q-21":
    "Broker responses carry no credentials; a mutating operation runs at most once per approval and only with the approved arguments",
  "Q-22":
    "Declared secret values do not appear in logs, events, transcripts, errors or results: raw, base64, base64url, hex, percent- or JSON-escaped, also across chunk boundaries",
  "Q-23": "Control bytes from skills never reach a terminal or forge a log line",
  "Q-24": "Steps, nesting, cycles, sizes and counts are bounded by the host",
  "Q-25": "What the program writes parses back to the same values; template values are never expanded again",
  "Q-26":
    "A workspace's configuration can set only a listed few keys (enabled, alias choice, disclosure and lower limits); an endpoint, key, command, provider, tool, network or sandbox entry there is refused with file and line",
  "A-01":
    "Discovery reads the standard folders of every supported client, at user and project level, and nested workspaces of a monorepo; one table serves discovery, export and doctor.",
  "Q-27": "After a run, sensitive paths of a writable workspace differ only by approved changes",
  "Q-28": "An approval shows the complete input that will be executed, and nothing else can be executed under it",
  "Q-29": "No request goes to a private address because a remote source named it",
  "Q-30": "`serve --http` answers no request without a token unless `--no-token` was given",
  "Q-31": "Everything read from a skill after it was judged comes from the judged copy",
  "W-32":
    "Results can be created by programs (`skillResult.success(content, iterations)`, `.error(message)`); the definition type carries all fields of W and S.",
  "S-40":
    "Configuration can be given as an object in a program; every part of `Host` is optional; a bad host gives a result with a problem, never an exception.",
  "S-41": "`~/.ash/config.toml` is read as the lowest user configuration, with a diagnostic.",
  "S-42":
    "`web_search` and `web_fetch` exist when configured; validation, dry run and run report a missing tool identically.",
  "S-44": "`skill list` shows all registered skills of the caller's context, with `--chat-type` and `--chat-id`.",
  "P-26":
    "`parseSkillMd(text)` is public: frontmatter and body; without frontmatter an empty mapping and the whole text.",
  "P-27":
    "Loading, unloading or activating a skill in the embedding program changes the tools of connected MCP clients at once, with a notification.",
  "P-28": "Name mapping, schema normalization and result envelope are exported pure functions.",
  "P-29": "A toolset built with `live: false` builds its cache once.",
  "P-30":
    "The shipped skill `ports` needs no account and no model: it reads without approval, and each change needs one and is logged.",
  "T-17": "`docs/specs.md` names the counterpart of every class and function of the five documents.",
  "N-30": "Skills, refs, sections and events are frozen at run time.",
  "N-31": "A session outlives an evaluation: expansions and messages carry over.",
  "N-32":
    "Scripts of referenced skills can be run in an isolated evaluation; a missing system program is a problem that names its package before anything starts.",
  "A-02": 'While a description is listed, its "use when" part is listed.',
  "A-03":
    "Full descriptions while they fit the budget; then the most relevant whole, the others shortened; names last; the listing states what was shortened.",
  "A-04":
    "The same query, skills, budget and usage snapshot give the same bytes; the query changes only the query-dependent suffix.",
  "A-05":
    "An unrelated prompt adds no full text, and a shortlist in at most 5 % of cases; `advise` otherwise returns nothing.",
  "A-06":
    "`advise` gives nothing, a shortlist, or one skill's instructions, within the client's limit, without repetition in a conversation.",
  "A-07":
    "Each supported client receives the advice through its own hook; connecting and disconnecting preserve everything else in its files.",
  "A-08": "A skill that a client lists itself is not listed to it a second time, unless it needs skillet to run.",
  "A-09": "The search index is persistent, incremental, and rebuilt when damaged.",
  "A-10": "Skills of MCP servers are a source: lazy, verified by digest, untrusted until approved.",
  "E-01":
    "One driver: the suites of journal, resume and approvals pass unchanged over the file store, the memory store and the Postgres store.",
  "E-02": "Without an engine no module of it is loaded, and no package is added to an installation.",
  "E-03": "A step costs at most 3 x a file step at 1 kB and 4 x at 100 kB (measured by the benchmark), one round trip.",
  "E-04":
    "Every value the file store keeps, the Postgres store keeps byte for byte (NUL, lone surrogates, 10 MB, `__proto__`).",
  "E-05": "A write whose acknowledgement was lost is kept once.",
  "E-06":
    "No value of a secret is in any table, dump or log of the database and the workers; with a seal key no text of a task either.",
  "E-07":
    "Enqueue, answer, resume, next leg and recovery are each one transaction: with the connection broken at any message, all of it or nothing is kept.",
  "E-08":
    "Chaos (kill -9, SIGSTOP, Postgres restarts, cut connections): all runs end, no call after its step was kept, no step twice. A worker that froze right before it wrote a request, or started a process, sends nothing when another one has the run.",
  "E-09":
    "The runs of a worker that was killed, frozen (also inside a transaction) or cut off continue on another one. Reading: how soon after a kill is measured by bench/workers, and asserted by no test.",
  "E-10":
    "A worker that renews its lease is never reaped: 20 Postgres restarts and 3 outages longer than a lease repeat nothing. Reading: one that cannot renew it in time, as on an overloaded machine with a lease of 2 s, loses its runs, and a call in flight is repeated.",
  "E-13":
    "A run that kills its worker is dead after N attempts, and the others are done. Reading: at least 0.8 of the legs of the others end a run; time is not measured.",
  "E-15": "The same idempotency key at the same time gives one run; another request under it is refused.",
  "E-17": "No run is stuck silently: one whose leg was lost is found again.",
  "E-18":
    "A worker without the skill, without trust in it, with another copy or without the workspace makes 0 calls and gives the run back; `stuck` names the cause.",
  "E-19": "An approval or denial given on one machine holds on another with a different home.",
  "E-20":
    "Permanent approvals are shared by digest and tenant. They are read at each call, so a revocation counts at the next call of every worker.",
  "E-11": "Several workers that find the same one gone, or the same legs lost, at once move each run once.",
  "E-12":
    "A waiting run holds no slot, lease or connection of a worker, and with 200 waiting runs at most 20 kB of its memory each.",
  "E-28":
    "Pruning removes old runs with their lines in batches by indexes, but no waiting or active ones; a batch reads no more pages after 95,000 pruned runs than before. `runs` reads at most twice the pages among 100,000 runs that it reads among 2,000; the number of all runs is counted by an index, and filters by state and skill read those that columns do not exclude. Reading: pages are counted, not time.",
  "E-25":
    "A run started by the previous release is resumed by this one: with the tables and the journal that it wrote.",
  "E-27":
    "One trace, one chain of audit entries and one statistics row per run, however often it moved between workers; `stats` and `audit` read those of all machines. With a seal key, `audit verify` finds a line that a program without the key added.",
  "E-22":
    "A capability's change happens once per approval across a hand-over: after a kill or a freeze between the change and its record, another worker asks again and gives the provider the same key.",
  "E-23":
    "Credentials: sign in on one machine, use on another; one renewal of an expiring credential for concurrent workers; without the key refused, and nothing is written or lost. The same user id of two tenants has separate credentials and sign-ins.",
  "E-24": "Draining repeats 0 calls; two rolling deploys under load: no run fails, and no call is repeated.",
  "E-21": "approve, deny, cancel, runs and stats work from a machine without worker, skills or model.",
  "E-26":
    "Postgres unavailable: commands fail within 5 s with a fix and without the password, workers survive, and everything continues on return: an attempt comes about once a second, however long the outage.",
  "E-29": "A least-privileged database role is enough to record runs; `engine check` reports a role that can do more.",
  "E-14":
    "Tenant concurrency is never exceeded, with 2 and 4 workers and in a server; a small tenant behind a large one starts before most of its runs.",
  "E-16":
    "Provider limits hold over all runs of a process, and with an engine over all its processes; a 429 pauses all of them. While there is work, at least 0.9 of the limit is used, by a controlled clock.",
  "E-30":
    "Two HTTP servers of one home behind a round-robin proxy pass the 2026-07-28 suite; an approval that arrives at the other server continues the call that waits, also with two homes and one database; older clients pass with stickiness, and without it get 404.",
  "E-31":
    "Each of 200 runs that wait for their model in one worker adds at most 1.5 MB to its memory. Reading: the throughput of two workers, at least 0.6 x that of two processes with files, is measured by the benchmark `workers`.",
  "E-32":
    "The operator's page is executed as printed: two machines with their own homes and network namespaces (without root: homes only), two workers, two servers.",
  "E-33":
    "disable, ungrant, token revoke and trust revoke are effective in running servers and workers within 2 s; the command reports how many have the change. With an engine, a token created or revoked on one machine counts on the servers of all.",
  "E-34":
    "Every script, load and use over the server is recorded with the caller: runs, statistics, audit, trace, access log.",
  "E-35":
    "Tokens per person with scopes and expiry; JWTs of a configured issuer; no one reaches another person's sessions, runs, approvals or credentials.",
  "V-01": "`skillet studio` answers only its own page, in a session that a link started: each link works once.",
  "V-02": "Every figure of the page is what a command prints with `--json`.",
  "V-03": "Text of skills, runs and stored evaluations is never markup in the page, and its policy is never violated.",
  "V-04":
    "A change needs the session, its key and JSON, is for exactly what was shown, and is refused with `--read-only`; no path of a client is read; secrets are redacted, in every answer and change.",
  "V-05": "The page follows changes of skills and runs while it is open.",
  "V-06": "An approval in the page continues the run, in the terminal that asks or in the background.",
  "V-07": "A table of 10,000 skills renders the rows on the screen alone.",
  "V-08": "The page has less than 250 kB, compressed, and no other command imports its server.",
  "V-09": "The page works with the keyboard alone, in the dark, at 360 px, and without serious findings of axe-core.",
};

/** Requirements without a test, with the reason. This list only shrinks: `MOST_OPEN` decreases with it and never grows. */
export const OPEN: readonly { reason: string; ids: string }[] = [];

export const MOST_OPEN = 0;

/** Sandboxes for which the whole suite has not tested the promises, with the reason. */
export const UNTRIED: readonly { sandbox: string; suite: string; reason: string }[] = [
  {
    sandbox: "docker and podman",
    suite: "test/sandbox/container.test.ts",
    reason:
      "no machine of the project has an engine: the suite runs where SKILLET_TEST_IMAGE names an image and an engine answers",
  },
  {
    sandbox: "seatbelt",
    suite: "test/sandbox/seatbelt.test.ts",
    reason: "no machine of the project is a Mac: the suite runs on macOS",
  },
];
