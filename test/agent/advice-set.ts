interface AdviceSkill {
  description: string;
  keywords?: readonly string[];
}

/** Sixty skills as authors describe them. A third of them declare triggers. */
export const ADVICE_SKILLS: Readonly<Record<string, AdviceSkill>> = {
  "accessibility-audit": {
    description: "Audits web pages against WCAG 2.2. Use when asked about screen readers, contrast or keyboard access.",
    keywords: ["wcag", "screen reader"],
  },
  "airflow-dags": {
    description: "Writes and debugs Apache Airflow DAGs. Use when a scheduled pipeline fails or is new.",
  },
  "api-design": {
    description: "Designs REST and GraphQL endpoints. Use when a new API or a breaking change is planned.",
  },
  "api-mocking": {
    description: "Replaces HTTP services by recorded responses in tests. Use when tests call a real service.",
  },
  "aws-costs": { description: "Explains an AWS bill and proposes savings. Use when cloud spending rises." },
  "backup-restore": { description: "Plans database backups and rehearses a restore. Use before risky maintenance." },
  "bash-scripting": {
    description: "Writes portable shell scripts with error handling. Use for automation in bash or sh.",
  },
  "blog-post": {
    description: "Drafts technical blog posts with an outline first. Use when an article is to be written.",
  },
  "brand-voice": {
    description: "Rewrites marketing copy in the company's tone. Use for landing pages and newsletters.",
  },
  "browser-automation": {
    description: "Drives a browser with Playwright. Use when a site has to be clicked through or scraped.",
    keywords: ["playwright"],
  },
  "changelog-writer": {
    description: "Writes release notes from merged pull requests. Use when a version is tagged.",
    keywords: ["release notes", "changelog"],
  },
  "chart-maker": {
    description: "Plots data as bar, line and scatter charts. Use when numbers should become a picture.",
  },
  "ci-pipelines": {
    description: "Writes GitHub Actions workflows. Use when builds, tests or deployments run on every push.",
    keywords: ["github actions"],
  },
  "code-review": {
    description: "Reviews a diff for bugs, naming and missing tests. Use when asked to review changes.",
  },
  "commit-messages": { description: "Writes commit messages from staged changes. Use before committing." },
  "contract-review": {
    description: "Reads contracts and lists risky clauses. Use for NDAs, leases and service agreements.",
  },
  "cover-letter": {
    description: "Writes cover letters from a CV and a job posting. Use when somebody applies for a job.",
  },
  "csv-cleanup": { description: "Repairs CSV files: encodings, delimiters, duplicate rows. Use when an import fails." },
  "customer-replies": {
    description: "Drafts answers to support tickets. Use when a customer complains or asks for a refund.",
  },
  "data-retention": {
    description: "Applies GDPR retention and deletion rules. Use when personal data is stored.",
    keywords: ["gdpr"],
  },
  "dependency-updates": {
    description: "Upgrades npm and pip packages one by one. Use when packages are outdated or vulnerable.",
  },
  "devcontainer-setup": {
    description:
      "Creates a dev container with tools and extensions. Use when a reproducible development environment is needed.",
    keywords: ["devcontainer", "dev container"],
  },
  "django-migrations": {
    description: "Writes Django migrations that do not lock large tables. Use for schema changes in Django.",
  },
  "docker-images": {
    description: "Shrinks and hardens Docker images. Use when a Dockerfile is slow to build or too large.",
  },
  "docx-reports": {
    description: "Creates and edits Word documents. Use when a .docx with headings and tables is wanted.",
  },
  "email-triage": { description: "Sorts an inbox and drafts replies. Use when mail has piled up." },
  "excel-models": {
    description: "Builds spreadsheets with formulas and pivot tables. Use for .xlsx files, budgets and forecasts.",
    keywords: ["xlsx", "pivot table"],
  },
  "expense-report": { description: "Turns receipts into an expense report. Use after a business trip." },
  "feature-flags": { description: "Introduces and removes feature flags. Use for gradual rollouts." },
  "figma-handoff": {
    description: "Turns Figma frames into components. Use when a design is to be implemented.",
    keywords: ["figma"],
  },
  "flaky-tests": { description: "Finds why a test fails only sometimes. Use when CI is red without a change." },
  "git-rescue": {
    description: "Recovers lost commits and undoes bad merges. Use when git history is broken or work is lost.",
  },
  "i18n-extraction": {
    description: "Moves user-visible strings into translation files. Use when an app gets a second language.",
  },
  "incident-report": {
    description: "Writes a blameless postmortem with a timeline. Use after an outage.",
    keywords: ["postmortem"],
  },
  "interview-questions": { description: "Prepares interview questions for a role. Use before meeting a candidate." },
  "invoice-writer": { description: "Creates invoices from time sheets. Use when a client is to be billed." },
  "jira-tickets": {
    description: "Writes Jira tickets with acceptance criteria. Use when work is planned.",
    keywords: ["jira"],
  },
  "k8s-debugging": {
    description: "Diagnoses pods that crash, hang or cannot be scheduled. Use for Kubernetes clusters.",
    keywords: ["kubernetes", "kubectl"],
  },
  "latex-papers": {
    description: "Formats scientific papers and bibliographies in LaTeX. Use for journal submissions.",
    keywords: ["latex"],
  },
  "load-testing": { description: "Measures how many requests a service takes with k6. Use before a launch." },
  "log-analysis": {
    description: "Finds the cause of errors in log files. Use when an application misbehaves in production.",
  },
  "meeting-notes": { description: "Condenses transcripts into decisions and action items. Use after a call." },
  "memory-leaks": {
    description: "Finds memory leaks with heap snapshots. Use when a process grows until it is killed.",
  },
  "oauth-login": {
    description: "Adds sign-in with Google or GitHub. Use when users should log in through another account.",
  },
  "onboarding-plan": { description: "Plans the first weeks of a new colleague. Use when somebody joins the team." },
  "pdf-forms": {
    description: "Fills in and flattens PDF forms, merges and splits pages. Use for any .pdf file.",
    keywords: ["pdf"],
  },
  "podcast-summary": { description: "Summarizes audio recordings by chapter. Use for episodes and talks." },
  "postgres-tuning": {
    description: "Reads query plans and proposes indexes for PostgreSQL. Use when a query is slow.",
    keywords: ["postgres", "query plan"],
  },
  "react-performance": {
    description: "Removes needless re-renders in React components. Use when a page feels sluggish.",
  },
  "recipe-planner": {
    description: "Plans meals for a week and writes the shopping list. Use when cooking is to be planned.",
  },
  "regex-builder": {
    description: "Builds and explains regular expressions. Use when text has to be matched or extracted.",
  },
  "resume-polish": { description: "Improves a CV for a given posting. Use when somebody looks for a new job." },
  "seo-audit": {
    description: "Checks titles, links and structured data of a site. Use when a page ranks badly in search engines.",
  },
  "slide-deck": {
    description: "Creates presentations with speaker notes. Use for .pptx files and talks.",
    keywords: ["pptx", "slide deck"],
  },
  "solana-scanner": {
    description: "Audits Solana programs for missing signer and owner checks. Use for Anchor and Rust contracts.",
    keywords: ["solana"],
  },
  "terraform-modules": {
    description: "Writes Terraform modules and reviews plans. Use for infrastructure as code.",
    keywords: ["terraform"],
  },
  "threat-model": {
    description: "Lists assets, attackers and mitigations of a system. Use when a design has security implications.",
  },
  "travel-itinerary": {
    description: "Plans trips with trains, hotels and sights. Use when a journey is to be organized.",
  },
  "unit-test-writer": { description: "Writes unit tests for existing functions. Use when coverage is low." },
  "video-captions": {
    description: "Creates subtitles from speech. Use when a video needs captions or a translation of them.",
  },
};

/** Requests as people type them, each with the skill that it is for. Written before the first measurement and never used for tuning. */
export const ADVICE_QUERIES: readonly { query: string; skill: string }[] = [
  { query: "Audit my Solana program for missing signer checks", skill: "solana-scanner" },
  {
    query: "set up a dev container for this repository so that everybody has the same tools",
    skill: "devcontainer-setup",
  },
  { query: "the pod keeps restarting with CrashLoopBackOff, what does kubectl tell us?", skill: "k8s-debugging" },
  { query: "please write the release notes for 3.2 from the merged pull requests", skill: "changelog-writer" },
  { query: "I lost two commits after a bad merge, can you get them back with git?", skill: "git-rescue" },
  { query: "our node process grows until it is killed by the OOM killer, find the memory leak", skill: "memory-leaks" },
  { query: "this query on the orders table is slow, propose indexes for postgres", skill: "postgres-tuning" },
  { query: "turn the transcript of yesterday's call into decisions and action items", skill: "meeting-notes" },
  { query: "fill in the fields of tax-form.pdf from my data and flatten it", skill: "pdf-forms" },
  { query: "test_checkout fails only sometimes in CI although nothing changed", skill: "flaky-tests" },
  { query: "make a pivot table of revenue by region in sales.xlsx", skill: "excel-models" },
  { query: "write a cover letter for this job posting from my CV", skill: "cover-letter" },
  { query: "our AWS bill doubled last month, where can we save?", skill: "aws-costs" },
  { query: "let users sign in with their Google account", skill: "oauth-login" },
  { query: "the Dockerfile produces a 2 GB image, make the image smaller", skill: "docker-images" },
  { query: "plan our meals for next week and write the shopping list", skill: "recipe-planner" },
  { query: "build a regular expression that extracts the invoice numbers from these lines", skill: "regex-builder" },
  { query: "write a Django migration that adds a column to a table with 80 million rows", skill: "django-migrations" },
  { query: "is our login page usable with a screen reader?", skill: "accessibility-audit" },
  { query: "create a presentation with speaker notes for Thursday's talk", skill: "slide-deck" },
];

/** Prompts that match none of the skills. */
export const ADVICE_UNRELATED: readonly string[] = [
  "what time is it in Tokyo?",
  "thanks",
  "rename this variable",
  "hi there",
  "what is 17 times 23?",
  "no, the other file",
  "yes please, go ahead",
  "why is the sky blue?",
  "tell me a joke about penguins",
  "open src/index.ts",
  "who won the world cup in 1998?",
  "translate 'good morning' into Portuguese",
  "can you explain what a monad is?",
  "undo that",
  "how tall is Mount Everest?",
  "make the button green",
  "what does this function return?",
  "ok, continue",
  "sort these names alphabetically: Zoe, Adam, Mia",
  "which of the two is faster?",
];

/** Writes the skills below a folder. Their instructions have about 7,000 characters, the median of published skills. */
export function adviceSkillFiles(folder: string): Record<string, string> {
  return Object.fromEntries(
    Object.entries(ADVICE_SKILLS).map(([name, { description, keywords }]) => {
      const triggers = keywords ? `triggers:\n  keywords: ${JSON.stringify(keywords)}\n` : "";
      const frontmatter = `name: ${name}\ndescription: ${JSON.stringify(description)}\n${triggers}`;
      const steps = Array.from({ length: 60 }, (_, at) => `${at + 1}. ${STEP} ${name}.`);
      return [`${folder}/${name}/SKILL.md`, `---\n${frontmatter}---\n\n# ${name}\n\n${steps.join("\n")}\n`];
    }),
  );
}

const STEP = "Look at what was asked, do this part of it, and check the result before the next step of";
