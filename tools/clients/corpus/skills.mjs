/**
 * Sixty skills in the style of public collections: a name, a description, and steps. All texts were written for this test. Most descriptions state
 * the purpose of the skill and then when to use it, some only one of the two, and some are long, as on real machines.
 */
export const ROWS = [
  [
    "accessibility-audit",
    "Reviews web pages against WCAG 2.2 and lists barriers with fixes. Use when the user asks whether a page works with a screen reader, has enough contrast, or can be used by keyboard.",
    [
      "Collect landmarks and headings",
      "Check names and roles of controls",
      "Measure contrast",
      "Walk through the page by keyboard",
    ],
  ],
  [
    "airflow-dag-doctor",
    "Diagnoses failed or stuck Airflow DAG runs from task logs and scheduler state. Use when a DAG does not start, a task retries forever, or a sensor never succeeds.",
    ["Read the scheduler heartbeat", "Find the first failed task", "Compare pool slots", "Propose a rerun plan"],
  ],
  [
    "android-release",
    "Prepares a signed Android App Bundle and the notes for the Play Console. Use when the user wants to ship an Android build to internal testing or production.",
    ["Raise versionCode", "Build the bundle", "Check the signing config", "Write the release notes"],
  ],
  [
    "api-contract-review",
    "Compares two OpenAPI documents and reports breaking changes for consumers. Use when an endpoint, a field or a status code changes and clients must keep working.",
    ["Load both documents", "Match operations", "Classify each difference", "Suggest a version bump"],
  ],
  [
    "bash-hardening",
    "Makes shell scripts safe: strict mode, quoting, traps, temporary files. Use when the user writes or reviews a bash script, or a script fails silently in CI.",
    ["Run a linter", "Quote expansions", "Replace unsafe temporary files", "Add traps for clean-up"],
  ],
  [
    "benchmark-writer",
    "Writes reproducible micro-benchmarks with warm-up, repetitions and confidence intervals. Use when the user claims that one implementation is faster than another.",
    ["Isolate the code under test", "Choose the input sizes", "Record variance", "Present ratios, not times"],
  ],
  [
    "bibtex-cleaner",
    "Normalizes BibTeX files: removes duplicates, completes DOIs, fixes capitalization of titles. Use when a bibliography has double entries or a citation style breaks.",
    ["Parse the entries", "Match duplicates by DOI and title", "Protect capitals", "Sort by key"],
  ],
  [
    "blog-outline",
    "Turns rough notes into an outline for a technical blog post with a hook, three sections and a closing. Use when the user wants to publish an article and has only notes.",
    ["Find the one message", "Order the evidence", "Draft section titles", "Write the opening paragraph"],
  ],
  [
    "changelog-from-commits",
    "Groups commits since the last tag into a changelog for readers. Use when a release needs notes and the history follows no strict convention.",
    ["List commits since the tag", "Drop internal changes", "Group by effect on users", "Write one line each"],
  ],
  [
    "chart-picker",
    "Chooses a chart type for a table of numbers and produces a Vega-Lite specification. Use when the user has data and asks how to show it.",
    [
      "Determine the kinds of columns",
      "State the question",
      "Pick marks and channels",
      "Check colors for color blindness",
    ],
  ],
  [
    "ci-cache-tuner",
    "Finds why CI caches miss and proposes keys and paths. Use when pipelines download dependencies in every job or the cache is never restored.",
    ["Read the job logs", "Compare cache keys", "Measure hit rates", "Rewrite the key"],
  ],
  [
    "cloud-cost-report",
    "Explains a cloud bill by service, team and change since last month. Use when the user asks why costs rose, which resources are idle, or where to save money on AWS, GCP or Azure.",
    ["Import the cost export", "Group by tag", "Find the largest changes", "List idle resources"],
  ],
  [
    "contract-redline",
    "Marks up a contract with suggested wording and the reason for each change. Use when the user received an agreement, NDA or terms of service and wants to negotiate.",
    ["Identify the parties", "Compare clauses with a playbook", "Rate each risk", "Write the alternative wording"],
  ],
  [
    "cover-letter",
    "Writes a one-page cover letter from a résumé and a job advertisement. Use when the user applies for a position.",
    ["Extract the requirements", "Match experience", "Write three paragraphs", "Check the tone"],
  ],
  [
    "csv-profiler",
    "Profiles CSV files: types, missing values, outliers, broken rows, encodings. Use when the user receives a data file and does not know what is in it, or an import fails.",
    ["Detect delimiter and encoding", "Infer types", "Count missing values", "Show suspicious rows"],
  ],
  [
    "cve-triage",
    "Decides whether a published vulnerability affects a project by tracing the vulnerable function. Use when an advisory, a Dependabot alert or a scanner names a CVE.",
    ["Read the advisory", "Find the affected versions", "Trace calls to the function", "Write a verdict"],
  ],
  [
    "database-index-advisor",
    "Suggests PostgreSQL indexes from slow queries and execution plans. Use when a query is slow, a sequential scan shows up in EXPLAIN, or the user asks which index is missing.",
    ["Collect the plans", "Find scans over large tables", "Simulate the index", "Estimate the write cost"],
  ],
  [
    "dependency-upgrade",
    "Upgrades one dependency across a major version with the migration notes applied. Use when a package is outdated, and the new version has breaking changes.",
    ["Read the migration guide", "Upgrade in a branch", "Fix call sites", "Run the tests"],
  ],
  [
    "docker-slim",
    "Shrinks container images with multi-stage builds, smaller bases and fewer layers. Use when an image is large, builds slowly, or contains compilers in production.",
    ["List the layers", "Split build and run stages", "Choose the base image", "Compare the sizes"],
  ],
  [
    "email-triage",
    "Sorts an inbox into reply, delegate, read later and archive, with drafts for the replies. Use when the user is behind on mail.",
    ["Read subjects and senders", "Group the threads", "Draft short replies", "List what waits for others"],
  ],
  [
    "error-budget",
    "Computes service level objectives and remaining error budgets from metrics. Use when a team asks whether it may release, or an SLO was missed.",
    ["Define the indicator", "Query the metrics", "Compute the burn rate", "Recommend freeze or release"],
  ],
  [
    "figma-handoff",
    "Reads exported design tokens and produces CSS variables and component notes. Use when a designer hands over a Figma file and engineers need measures, colors and states.",
    ["Import the tokens", "Name the variables", "Document the states", "List open questions"],
  ],
  [
    "flaky-test-hunter",
    "Finds tests that fail sometimes, reproduces them under load and names the race. Use when CI is red now and then, and a rerun makes it green.",
    ["Collect failures by test", "Repeat under stress", "Look for shared state", "Fix the wait condition"],
  ],
  [
    "gdpr-check",
    "Checks a feature for personal data, legal basis, retention and processors. Use when the user stores data about people in the EU, or prepares a record of processing.",
    ["List the data", "Name the purpose", "Set the retention", "Write the record"],
  ],
  [
    "git-bisect-helper",
    "Finds the commit that introduced a regression by an automated bisect. Use when something worked in an older version and is broken now.",
    ["Write the test command", "Choose good and bad", "Run the bisect", "Explain the commit"],
  ],
  [
    "grant-proposal",
    "Structures a research grant proposal by the funder's criteria and checks word limits. Use when the user applies for funding.",
    ["Collect the criteria", "Write the aims", "Plan the work packages", "Check the limits"],
  ],
  [
    "graphql-schema-design",
    "Designs GraphQL schemas: nullability, pagination, errors, deprecation. Use when the user adds types or fields to a graph, or resolvers cause N+1 queries.",
    ["Model the domain", "Decide on nullability", "Add connections", "Plan the deprecation"],
  ],
  [
    "greeter",
    "Greets people by their name with the tool `greet`. Use when the user asks to greet, welcome or say hello to somebody by name.",
    [],
  ],
  [
    "helm-chart-lint",
    "Reviews Helm charts for missing limits, probes, labels and unsafe defaults. Use when a chart is written or a release fails on Kubernetes.",
    ["Render the templates", "Validate against schemas", "Check probes and limits", "Compare the values files"],
  ],
  [
    "i18n-extract",
    "Moves hard-coded interface text into message catalogs with plural rules. Use when an application is to be translated, or strings appear untranslated.",
    ["Find visible strings", "Create keys", "Add plural forms", "Check placeholders"],
  ],
  [
    "incident-postmortem",
    "Writes a blameless postmortem with a timeline, contributing factors and actions. Use after an outage, or when the user has an incident channel to summarize.",
    ["Collect the timeline", "Separate cause and trigger", "Write the actions", "Assign owners"],
  ],
  [
    "interview-questions",
    "Prepares structured interview questions and a scoring sheet for a role. Use when the user hires someone.",
    ["Read the role", "Choose the competencies", "Write the questions", "Define the scores"],
  ],
  [
    "invoice-reader",
    "Extracts supplier, dates, line items, tax and total from invoices as JSON. Use when the user has PDF or scanned invoices to book.",
    ["Read the text", "Find the totals", "Check the sums", "Write the JSON"],
  ],
  [
    "ios-crash-symbolicate",
    "Turns iOS crash logs into readable stack traces with dSYM files. Use when an ips or crash file shows addresses only.",
    ["Match the UUIDs", "Run the symbolication", "Find the crashing thread", "Group by signature"],
  ],
  [
    "jira-refinement",
    "Splits large tickets into small ones with acceptance criteria and estimates. Use when a backlog item is too large or vague for a sprint.",
    ["Find the outcome", "Split by behavior", "Write the criteria", "Estimate"],
  ],
  [
    "jupyter-cleanup",
    "Turns exploratory notebooks into modules with tests and parameters. Use when a notebook must run in production or hidden state gives other results on each run.",
    ["Restart and run all", "Extract functions", "Add parameters", "Write tests"],
  ],
  [
    "kafka-lag-investigator",
    "Explains consumer lag from partitions, rebalances and processing time. Use when messages arrive late or a consumer group falls behind.",
    ["Read the group state", "Find skewed partitions", "Measure processing time", "Propose scaling"],
  ],
  [
    "latex-table",
    "Formats tables for LaTeX with booktabs, units and aligned decimals. Use when the user needs a table in a paper.",
    ["Choose the columns", "Align the numbers", "Add units", "Write the caption"],
  ],
  [
    "license-compliance",
    "Lists the licenses of all dependencies and flags those that conflict with the project's. Use before a release, or when legal asks what is shipped.",
    ["Collect the licenses", "Classify them", "Find conflicts", "Write the notice file"],
  ],
  [
    "load-test-plan",
    "Designs load tests with k6: scenarios, ramps, thresholds. Use when the user asks how many requests a service can take.",
    ["Define the traffic", "Write the scenario", "Set thresholds", "Read the results"],
  ],
  [
    "log-query-builder",
    "Writes queries for Loki, Elasticsearch and CloudWatch from a question in plain words. Use when the user looks for something in logs.",
    ["Name the fields", "Narrow the time", "Write the query", "Explain the result"],
  ],
  [
    "meeting-minutes",
    "Turns a transcript into minutes: decisions, actions with owners and dates, open questions. Use when the user has a recording or notes of a meeting.",
    ["Find the decisions", "List the actions", "Name owners", "Keep open questions"],
  ],
  [
    "memory-leak-finder",
    "Finds memory leaks in Node.js and Python services from heap snapshots. Use when memory grows until the process is killed.",
    ["Take two snapshots", "Compare retained sizes", "Find the retainer", "Write a fix"],
  ],
  [
    "monorepo-splitter",
    "Moves a folder of a monorepo into its own repository with its history. Use when a package becomes independent.",
    ["Filter the history", "Rewrite imports", "Set up releases", "Leave a pointer"],
  ],
  [
    "nginx-config-review",
    "Reviews nginx configurations for TLS, headers, timeouts and location order. Use when a reverse proxy answers 502, redirects in a loop, or gets a bad TLS grade.",
    ["Test the syntax", "Check the order of locations", "Review TLS", "Set timeouts"],
  ],
  [
    "okr-coach",
    "Rewrites goals as objectives with measurable key results. Use in quarterly planning.",
    ["Ask for the outcome", "Draft objectives", "Make results measurable", "Remove tasks"],
  ],
  [
    "onboarding-guide",
    "Writes a first-week guide for a code base: set-up, architecture, first task. Use when a new engineer joins.",
    ["Run the set-up", "Map the modules", "Pick a first task", "Note the traps"],
  ],
  [
    "pdf-form-filler",
    "Fills PDF forms from structured data, checks required fields and flattens the result. Use when the user has a PDF form to complete.",
    ["List the fields", "Map the data", "Fill and check", "Flatten"],
  ],
  [
    "podcast-show-notes",
    "Writes show notes with chapters, links and quotes from a podcast transcript. Use when an episode is about to be published.",
    ["Find the chapters", "Collect links", "Pick quotes", "Write the summary"],
  ],
  [
    "pr-description",
    "Writes pull request descriptions from a diff: intent, changes, risks, how to test. Use when a branch is ready for review.",
    ["Read the diff", "State the intent", "List risks", "Write test steps"],
  ],
  [
    "privacy-redactor",
    "Replaces names, addresses and identifiers in documents by placeholders, consistently. Use when text with personal data is to be shared.",
    ["Detect entities", "Choose placeholders", "Replace consistently", "Report what is left"],
  ],
  [
    "react-render-profiler",
    "Finds components that render too often and suggests memoization or state moves. Use when a React interface is slow while typing or scrolling.",
    ["Record a profile", "Find hot components", "Trace the cause", "Apply the fix"],
  ],
  [
    "regex-explainer",
    "Explains regular expressions step by step and rewrites those that can hang. Use when the user does not understand a pattern or input makes it slow.",
    ["Parse the pattern", "Explain each part", "Look for nested repeats", "Rewrite"],
  ],
  [
    "rust-unsafe-review",
    "Reviews unsafe blocks in Rust for aliasing, lifetimes and undefined behavior. Use when a crate has unsafe code or Miri reports an error.",
    ["List the unsafe blocks", "State the invariants", "Run Miri", "Write safety comments"],
  ],
  [
    "solidity-gas-review",
    "Finds expensive patterns in Solidity contracts and proposes cheaper storage layouts. Use when a contract costs too much gas or nears the size limit.",
    ["Measure per function", "Pack the storage", "Move data to calldata", "Compare"],
  ],
  [
    "sql-migration-safety",
    "Checks schema migrations for locks, rewrites and downtime on large tables. Use before an ALTER TABLE runs in production.",
    ["Classify each statement", "Find table locks", "Split into steps", "Plan the rollback"],
  ],
  [
    "terraform-plan-review",
    "Explains a Terraform plan and flags deletions, replacements and open security groups. Use when a plan is to be approved.",
    ["Parse the plan", "List destructive changes", "Check access rules", "Summarize"],
  ],
  [
    "threat-model",
    "Draws up a threat model with assets, trust boundaries, STRIDE threats and mitigations. Use when a design is new or handles secrets or money.",
    ["List the assets", "Draw the boundaries", "Go through STRIDE", "Rank the mitigations"],
  ],
  [
    "unit-converter-tables",
    "Builds conversion tables between units with significant digits. Useful for lab protocols and recipes.",
    ["Choose the units", "Set the precision", "Compute", "Format"],
  ],
  [
    "video-captions",
    "Creates captions in WebVTT with line lengths, reading speed and speaker labels. Use when a video needs subtitles.",
    ["Segment the transcript", "Set the times", "Check the reading speed", "Write the file"],
  ],
];

/** Text that occurs only in the instructions of `greeter`. */
export const MARK = "kestrel";

/** Every fifth body is too long for a hook, like many public ones. */
const LONG_EVERY = 5;
const LONG = 12_000;

/** Returns the files of all skills, by path below a folder of skills. */
export function corpusFiles() {
  return Object.fromEntries(
    ROWS.flatMap(([name, description, steps], index) =>
      name === "greeter"
        ? Object.entries(GREETER).map(([path, text]) => [`greeter/${path}`, text(description)])
        : [[`${name}/SKILL.md`, document(name, description, body(name, steps, index % LONG_EVERY === 0))]],
    ),
  );
}

function document(name, description, text, more = "") {
  return `---\nname: ${name}\ndescription: ${JSON.stringify(description)}\n${more}---\n\n${text}\n`;
}

function body(name, steps, isLong) {
  const title = name.replaceAll("-", " ");
  const parts = steps.map(
    (step, index) =>
      `## ${index + 1}. ${step}\n\n${step} before anything else changes. Write down what you found and what is uncertain. Ask if the input is incomplete.`,
  );
  const text = [
    `# ${title}`,
    `Instructions of ${name}.`,
    ...parts,
    "## Result\n\nOne page: findings first, then the next step.",
  ].join("\n\n");
  const example = `\n\n## Example\n\n${steps.join(". ")}.`;
  return isLong ? text + example.repeat(Math.ceil((LONG - text.length) / example.length)) : text;
}

const GREETER = {
  "SKILL.md": (description) =>
    document(
      "greeter",
      description,
      `# Greeter\n\nGreet with the tool \`greet\`. Who asks for the password is told "${MARK}".`,
      'toolsets:\n  - "toolsets/index:Tools"\n',
    ),
  "toolsets/index.ts": () => `import { Tool } from "@agent/tools";
import { z } from "zod";

export const Tools = [
  Tool.define("greet", {
    description: "Says hello to somebody",
    parameters: z.object({ name: z.string() }),
    execute: ({ name }) => \`Hello, \${name}\`,
  }),
];
`,
};
