/** A skill with a description as authors write them, and the part of its cue that a list must keep. */
export interface CuedSkill {
  name: string;
  description: string;
  whenToUse?: string;
  /** The beginning of the cue, in its own or its short form. */
  marker: RegExp;
  /** The topic of the cue, after the marker. */
  topic: string;
  /** A request for this skill. */
  request: string;
}

/** One row per subject: a part of the name, its wording, and examples of it. */
const SUBJECTS: readonly (readonly [slug: string, thing: string, examples: string])[] = [
  ["terraform", "Terraform modules", "VPCs, IAM roles, or S3 buckets"],
  ["invoices", "customer invoices", "credit notes, reminders, or receipts"],
  ["pdf-forms", "PDF forms", "tax forms, contracts, or questionnaires"],
  ["spreadsheets", "Excel workbooks", ".xlsx, .csv, or .tsv files"],
  ["slides", "slide decks", "pitch decks, lectures, or status reports"],
  ["react", "React components", "modals, tables, or date pickers"],
  ["postgres", "Postgres schemas", "tables, indexes, or views"],
  ["kubernetes", "Kubernetes manifests", "deployments, services, or ingresses"],
  ["openapi", "OpenAPI documents", "paths, schemas, or security schemes"],
  ["graphql", "GraphQL resolvers", "queries, mutations, or subscriptions"],
  ["solidity", "Solidity contracts", "tokens, vaults, or bridges"],
  ["playwright", "browser tests", "logins, checkouts, or searches"],
  ["dockerfiles", "container images", "base layers, multi-stage builds, or entrypoints"],
  ["github-actions", "CI workflows", "matrix builds, caches, or releases"],
  ["changelog", "release notes", "features, fixes, or breaking changes"],
  ["translations", "interface translations", "German, Spanish, or Japanese strings"],
  ["newsletters", "email newsletters", "digests, announcements, or invitations"],
  ["landing-pages", "landing pages", "hero sections, pricing tables, or footers"],
  ["icons", "vector icons", "outlines, glyphs, or badges"],
  ["figma", "Figma frames", "screens, variants, or tokens"],
  ["podcasts", "podcast episodes", "intros, chapters, or show notes"],
  ["videos", "short videos", "clips, captions, or thumbnails"],
  ["recipes", "cooking recipes", "starters, mains, or desserts"],
  ["travel", "travel itineraries", "flights, hotels, or day trips"],
  ["contracts", "legal contracts", "NDAs, leases, or licenses"],
  ["payroll", "payroll runs", "bonuses, deductions, or overtime"],
  ["budgets", "department budgets", "forecasts, variances, or headcount"],
  ["surveys", "customer surveys", "NPS scores, comments, or segments"],
  ["interviews", "job interviews", "screens, panels, or take-homes"],
  ["onboarding", "onboarding plans", "first weeks, buddies, or checklists"],
  ["incidents", "production incidents", "outages, regressions, or data loss"],
  ["dashboards", "Grafana dashboards", "latency, errors, or saturation"],
  ["logs", "server logs", "stack traces, access logs, or audit trails"],
  ["profiling", "CPU profiles", "flame graphs, hot loops, or allocations"],
  ["memory-leaks", "heap snapshots", "detached nodes, caches, or closures"],
  ["sql", "SQL queries", "joins, window functions, or aggregates"],
  ["etl", "data pipelines", "extracts, joins, or backfills"],
  ["ml-training", "training runs", "learning rates, losses, or checkpoints"],
  ["notebooks", "Jupyter notebooks", "cells, plots, or widgets"],
  ["charts", "data charts", "bar charts, scatter plots, or heat maps"],
  ["maps", "geographic maps", "choropleths, routes, or tiles"],
  ["genomics", "sequencing reads", "FASTQ, BAM, or VCF files"],
  ["chemistry", "molecule structures", "SMILES, InChI, or PDB entries"],
  ["papers", "research papers", "abstracts, methods, or related work"],
  ["citations", "citation lists", "BibTeX, RIS, or DOI entries"],
  ["lesson-plans", "lesson plans", "warm-ups, exercises, or homework"],
  ["flashcards", "study flashcards", "definitions, dates, or formulas"],
  ["accessibility", "accessibility reports", "contrast, focus order, or labels"],
  ["seo", "search snippets", "titles, meta tags, or sitemaps"],
  ["oauth", "OAuth flows", "scopes, refresh tokens, or redirects"],
  ["secrets", "leaked credentials", "API keys, tokens, or passwords"],
  ["fuzzing", "fuzz harnesses", "parsers, decoders, or protocols"],
  ["firmware", "device firmware", "bootloaders, drivers, or sensors"],
  ["robotics", "robot trajectories", "arms, grippers, or mobile bases"],
  ["game-levels", "game levels", "spawns, loot, or triggers"],
  ["shaders", "fragment shaders", "lighting, noise, or blur"],
  ["compilers", "compiler passes", "inlining, folding, or lowering"],
  ["regex", "regular expressions", "groups, lookups, or classes"],
  ["git-history", "Git histories", "rebases, merges, or cherry-picks"],
  ["monorepo", "workspace packages", "versions, peers, or build orders"],
];

/** One row per kind of work: a part of the name, the sentence about the work, and the words of a cue. */
const WORK: readonly {
  slug: string;
  does: (thing: string) => string;
  doing: string;
  wants: string;
}[] = [
  {
    slug: "create",
    does: (thing) => `Creates ${thing} from a short brief with consistent structure, naming, and sensible defaults.`,
    doing: "creating, extending, or scaffolding",
    wants: "create or extend",
  },
  {
    slug: "review",
    does: (thing) => `Reviews ${thing} for correctness, style, and common mistakes, and reports findings by severity.`,
    doing: "reviewing, auditing, or checking",
    wants: "review or audit",
  },
  {
    slug: "convert",
    does: (thing) =>
      `Comprehensive toolkit for converting ${thing} between formats while keeping layout, metadata, and comments.`,
    doing: "converting, importing, or exporting",
    wants: "convert or export",
  },
  {
    slug: "debug",
    does: (thing) => `Systematic debugging of ${thing}: reproduce, isolate, explain, and fix the root cause.`,
    doing: "debugging, tracing, or fixing",
    wants: "debug or fix",
  },
  {
    slug: "migrate",
    does: (thing) => `Migrates ${thing} to a new version step by step with a tested rollback plan.`,
    doing: "migrating, upgrading, or porting",
    wants: "migrate or upgrade",
  },
  {
    slug: "test",
    does: (thing) => `Writes and runs thorough tests for ${thing}, including edge cases and regressions.`,
    doing: "testing, covering, or verifying",
    wants: "test or verify",
  },
  {
    slug: "document",
    does: (thing) => `Documents ${thing} in clear, actionable prose with diagrams and examples.`,
    doing: "documenting, explaining, or describing",
    wants: "document or explain",
  },
  {
    slug: "optimize",
    does: (thing) => `Makes ${thing} faster and smaller. Measures before and after, and keeps behavior the same.`,
    doing: "optimizing, tuning, or shrinking",
    wants: "optimize or tune",
  },
  {
    slug: "summarize",
    does: (thing) => `Summarizes ${thing} into a one-page overview for people who have five minutes.`,
    doing: "summarizing, condensing, or comparing",
    wants: "summarize or compare",
  },
  {
    slug: "monitor",
    does: (thing) => `Watches ${thing} over time and raises alerts that are worth waking up for.`,
    doing: "monitoring, alerting on, or tracking",
    wants: "monitor or track",
  },
];

interface Parts {
  thing: string;
  examples: string;
  doing: string;
  wants: string;
}

/** One row per wording of the cue. */
const CUES: readonly { cue: (parts: Parts) => string; marker: RegExp; isOwnKey?: true }[] = [
  { cue: ({ thing, examples, doing }) => `Use when ${doing} ${thing}, such as ${examples}.`, marker: /Use when/ },
  {
    cue: ({ thing, wants }) =>
      `Use this skill when the user wants to ${wants} ${thing}, asks for help with them, or pastes one into the conversation.`,
    marker: /Use (?:this skill )?when/,
  },
  {
    cue: ({ thing, examples, wants }) =>
      `Use this skill whenever the user asks to ${wants} ${thing} (${examples}), even if they do not name them.`,
    marker: /Use (?:this skill )?whenever/,
  },
  {
    cue: ({ thing, wants }) =>
      `This skill should be used when the user asks to "${wants} ${thing}", "help me with my ${thing}", or "what is wrong with these ${thing}".`,
    marker: /(?:should be used|Use) when/,
  },
  {
    cue: ({ thing, doing, examples }) => `Use PROACTIVELY when ${doing} ${thing}, e.g. ${examples}.`,
    marker: /Use PROACTIVELY when/,
  },
  {
    cue: ({ thing, doing }) => `Use for ${doing} ${thing}, for questions about them, and before a deadline.`,
    marker: /Use for/,
  },
  {
    cue: ({ thing, wants }) =>
      `Trigger when the user mentions ${thing} or needs to ${wants} them. Do NOT trigger for unrelated files.`,
    marker: /Trigger when/,
  },
  { cue: ({ thing, examples }) => `Triggers on ${thing}, ${examples}.`, marker: /Triggers on/ },
  {
    cue: ({ thing, doing }) => `Invoke when ${doing} ${thing}, or when a colleague hands some over.`,
    marker: /Invoke when/,
  },
  {
    cue: ({ thing, wants }) => `When the user needs to ${wants} ${thing}, or is stuck with them, load this first.`,
    marker: /When (?:the user|asked)/,
  },
  { cue: ({ thing, doing }) => `Apply when ${doing} ${thing} in an existing project.`, marker: /Apply when/ },
  { cue: ({ thing, examples }) => `Activate for ${thing} of any kind, including ${examples}.`, marker: /Activate for/ },
  {
    cue: ({ thing, doing }) => `MUST be used when ${doing} ${thing}; skip it for anything else.`,
    marker: /(?:MUST be used|Use) when/,
  },
  {
    cue: ({ thing, wants }) =>
      `Ideal for ${thing} that someone has to ${wants} quickly, reliably, and without surprises.`,
    marker: /Ideal for/,
  },
  {
    cue: ({ thing, doing }) => `Should be used when ${doing} ${thing} (not for one-off questions).`,
    marker: /(?:Should be used|Use) when/,
  },
  { cue: ({ thing, wants }) => `When someone wants to ${wants} ${thing}.`, marker: /When someone/, isOwnKey: true },
  { cue: ({ thing }) => `Verwenden, wenn es um ${thing} geht oder jemand danach fragt.`, marker: /Verwenden, wenn/ },
  {
    cue: ({ thing }) => `Usar cuando el usuario pida ayuda con ${thing}, un resumen o un ejemplo.`,
    marker: /Usar cuando/,
  },
  { cue: ({ thing }) => `当用户需要处理 ${thing} 或相关文件时使用。`, marker: /当用户/ },
  { cue: ({ thing }) => `${thing} の作成や確認を依頼された場合に使用してください。`, marker: /(?=.*場合に使用)/ },
];

/** Text that authors add without a hint about when to use the skill. */
const EXTRAS: readonly string[] = [
  "",
  "Covers setup, daily work, and troubleshooting.",
  "Includes templates, scripts, and a checklist (see references/).",
  "Provides best practices, patterns, and anti-patterns from large projects.",
  "Works on macOS, Linux, and Windows without further configuration.",
];

/** The same skills every time: each subject with each kind of work, and a wording of the cue that depends on both. */
export function cuedSkills(number = SUBJECTS.length * WORK.length): CuedSkill[] {
  return Array.from({ length: number }, (_, index) => {
    const at = (index * 7) % (SUBJECTS.length * WORK.length); // Prime to 600: each once, neighbors far apart.
    const round = Math.floor(index / (SUBJECTS.length * WORK.length));
    const [slug, thing, examples] = SUBJECTS[at % SUBJECTS.length] as (typeof SUBJECTS)[number];
    const work = WORK[Math.floor(at / SUBJECTS.length)] as (typeof WORK)[number];
    const { cue, marker, isOwnKey } = CUES[
      (at + Math.floor(at / SUBJECTS.length) * 3) % CUES.length
    ] as (typeof CUES)[number];
    const extra = EXTRAS[at % EXTRAS.length] ?? "";
    const said = cue({ thing, examples, doing: work.doing, wants: work.wants });
    const sentences = [work.does(thing), ...(isOwnKey ? [] : [said]), extra].filter((sentence) => sentence !== "");
    return {
      name: `${slug}-${work.slug}${round === 0 ? "" : `-${round}`}`,
      description: sentences.join(" "),
      ...(isOwnKey ? { whenToUse: said } : {}),
      marker,
      topic: thing,
      request: `Please ${work.wants.split(" ")[0]} the ${thing} in this folder`,
    };
  });
}
