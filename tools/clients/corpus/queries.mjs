/**
 * Prompts for the test of hooks. They were written before the first run and are not used to tune anything: a change of the matching must not
 * change these, nor the descriptions of the corpus, to make a run pass.
 */
export const QUERIES = [
  [
    "Our pipeline is red every third run and green again when somebody clicks retry. Find out which test is to blame.",
    "flaky-test-hunter",
  ],
  ["Here is the NDA that the customer sent. Suggest changes before I sign it.", "contract-redline"],
  [
    "The orders query takes nine seconds and EXPLAIN shows a sequential scan. What should I add?",
    "database-index-advisor",
  ],
  ["Why did our AWS bill go up by a third in October?", "cloud-cost-report"],
  ["Write subtitles for the product video, I have the transcript.", "video-captions"],
  ["Is this checkout page usable with a screen reader?", "accessibility-audit"],
  ["This worked in 2.3 and is broken in 2.5. Which commit broke it?", "git-bisect-helper"],
  ["Make our 2.1 GB container image smaller.", "docker-slim"],
  ["The consumer group is two hours behind. What is going on?", "kafka-lag-investigator"],
  ["Scan of an invoice attached: give me supplier, total and tax as JSON.", "invoice-reader"],
  ["Does CVE-2026-1187 in the YAML parser affect us at all?", "cve-triage"],
  ["Write up yesterday's outage for the whole company, without blaming anyone.", "incident-postmortem"],
  ["I applied to the position at the observatory; please write the cover letter.", "cover-letter"],
  ["Will this ALTER TABLE lock the customers table in production?", "sql-migration-safety"],
  ["What does ^(a+)+$ match, and why does it hang?", "regex-explainer"],
  ["Typing into the search box of our React app is sluggish.", "react-render-profiler"],
  ["Take the transcript of this morning's planning meeting and list decisions and who does what.", "meeting-minutes"],
  ["The service's memory climbs until Kubernetes kills it.", "memory-leak-finder"],
  ["Explain this terraform plan: does it delete anything?", "terraform-plan-review"],
  ["Replace all names and addresses in these support tickets so that I can share them.", "privacy-redactor"],
];

/** Prompts that match no skill of the corpus. */
export const UNRELATED = [
  "What time is it in Tokyo?",
  "Thanks, that was all.",
  "hi",
  "What is 17 times 23?",
  "Rename the variable foo to bar in utils.ts.",
  "Tell me a joke about penguins.",
  "Who wrote The Master and Margarita?",
  "Continue.",
  "Translate 'good morning' into Portuguese.",
  "How tall is Mount Kilimanjaro?",
  "Open the file src/index.ts and show me line 40.",
  "What's the weather like today?",
  "Suggest a name for my cat.",
  "Can you undo your last change?",
  "What is the capital of Mongolia?",
  "I prefer tabs over spaces.",
  "How long do I boil an egg?",
  "Why is the sky blue?",
  "Yes, go ahead.",
  "Sort this list: pear, apple, fig.",
];
