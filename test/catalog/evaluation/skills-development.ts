import type { EvaluationSkill } from "./skills.ts";

/** Programming, from review to release. */
export const DEVELOPMENT_SKILLS: readonly EvaluationSkill[] = [
  {
    name: "code-review",
    description:
      "Review pull requests for correctness, security and readability, with comments on lines. Use when the user asks for a review of a diff, branch or pull request.",
    body: "Read the description and the linked issue first. Look at tests before the implementation. Rank findings: bugs, security, design, style. Quote the line. Say what is good. Do not repeat what the linter says.",
    requests: [
      "have a look at my branch before I merge, anything that worries you?",
      "A new colleague opened a change of 900 lines that touches billing and I have only an hour. Go through the diff, tell me what can break in production, where the tests do not prove what they claim, and which comments I should leave on which lines. Style does not matter today.",
    ],
  },
  {
    name: "git-rescue",
    description:
      "Recover from Git mistakes: lost commits, bad rebases, detached HEAD, wrong branch, secrets in history. Use when history has to be rewritten or restored.",
    body: "Stop and make a backup branch. The reflog has what was lost for ninety days. Undo a pushed commit with revert, a local one with reset. Use git filter-repo to purge a file, then rotate what was exposed. Explain each command before running it.",
    requests: [
      "I did a hard reset and my work of two days is gone, can it be brought back",
      "Somebody committed the production password file eleven months ago and forty branches contain it by now. It has to disappear from the whole history without losing anybody's work, the tags have to stay, and the team needs instructions for what to do with their clones afterwards.",
    ],
  },
  {
    name: "unit-test-writer",
    description:
      "Write unit tests with edge cases for existing code in Jest, Vitest or pytest. Use when test coverage is low or a function has no tests.",
    body: "Find the public surface. One behavior per test, named by a sentence. Cover the empty, the boundary and the failing input. No mocks of what you own. Run coverage and look at branches, not lines. A test that cannot fail is removed.",
    requests: [
      "parse_duration has no coverage at all, write pytest cases for it incl. edge cases",
      "The pricing module is from 2019, nobody dares to touch it and there is not a single test. Before we refactor I want its present behavior pinned down, rounding and discounts included, in Vitest, so that we notice if something changes. Do not change the code itself. src/pricing/*.ts",
    ],
  },
  {
    name: "playwright-testing",
    description:
      "Test web applications end to end in a browser with Playwright: forms, screenshots, flaky tests. Use when a user journey should be tested or a page checked visually.",
    body: "Use role locators and web-first assertions. Never sleep. Record a trace on the first retry. Isolate state by a fresh context per test. Screenshots are compared with a tolerance on one platform only.",
    requests: [
      "the checkout e2e test fails every third run in CI, make it stable",
      "Before each release somebody clicks through registration, login, adding a product, paying and the confirmation mail by hand, which takes a morning. Automate that journey in a real browser, on Chrome and Firefox, with pictures of each step when something goes wrong.",
    ],
  },
  {
    name: "react-performance",
    description:
      "Find and fix slow rendering in React applications: unnecessary re-renders, large bundles, slow lists. Use when a React page feels sluggish.",
    body: "Profile first with the React profiler. Find components that render without changed props. Move state down, memoize only what is measured. Virtualize lists beyond a few hundred rows. Split routes. Check the bundle with an analyzer.",
    requests: [
      "typing in the search box of our react app lags, every keystroke redraws the whole table",
      "Our dashboard got slower with every sprint. Opening it takes six seconds on a normal laptop, scrolling through the five thousand orders stutters, and the initial JavaScript is 4 MB. Find out which components render too often and why, and what could be loaded later.",
    ],
  },
  {
    name: "api-design",
    description:
      "Design REST APIs and write OpenAPI specifications: resources, errors, pagination, versioning. Use when endpoints are planned or documented.",
    body: "Nouns for resources, plural. Errors follow problem details. Cursor pagination for what grows. Idempotency keys for payments. A breaking change needs a new version. Examples for each response.",
    requests: [
      "how should the endpoints for orders and refunds look like, write the openapi file",
      "Partners are going to integrate with our booking system and there is only an internal interface that grew by accident. Propose a clean public one: which resources, how lists are paged, how failures are reported, how we change it later without breaking anybody. The result should be a specification that they can generate clients from.",
    ],
  },
  {
    name: "database-migrations",
    description:
      "Plan and write safe database schema migrations without downtime for Postgres and MySQL. Use when a column, index or table changes on a live system.",
    body: "Expand, backfill, contract. Never add a column with a volatile default to a large table in one step. Create indexes concurrently. Set a lock timeout. Backfill in batches by primary key. Every migration has a way back.",
    requests: [
      "rename a column on a 200 million row postgres table while the app is running",
      "We have to split the customer name into two fields. The table is written to around the clock by three services that are deployed separately, and last time an ALTER locked it for eleven minutes. Work out the order of steps and deployments, the statements, and what we do if we have to go back halfway.",
    ],
  },
  {
    name: "sql-tuning",
    description:
      "Make slow SQL queries fast: read query plans, propose indexes, rewrite joins. Use when a query times out or an EXPLAIN output is shown.",
    body: "Get EXPLAIN ANALYZE with buffers. Look for the first node where the estimate is far off. A sequential scan is fine for small tables. Composite index order: equality, then range. Check for implicit casts. Update statistics before anything else.",
    requests: [
      "this select with three joins takes 40 s, here's the explain analyze",
      "Every Monday morning the report for the sales managers brings the database to its knees. It reads orders, order lines and customers for a year and groups them by region. I pasted the plan below. Where is the time spent, which index is missing, and could the statement be written in a better way?",
    ],
  },
  {
    name: "docker-images",
    description:
      "Write small and secure Dockerfiles: multi-stage builds, caching, non-root users. Use when a container image is too large, slow to build or insecure.",
    body: "Order layers by how often they change. Copy the lock file before the sources. Build in one stage, run in a slim one. Pin the base image by digest. Run as a user. Add a dockerignore. Use cache mounts for package managers.",
    requests: [
      "our image has 2.3 GB and each build downloads all npm packages again",
      "The security scan complains that our containers run as root, contain a compiler and a shell, and have ninety known vulnerabilities from the base. The build also takes fourteen minutes because nothing is cached. Rework the Dockerfile of the Python service so that ops accept it.",
    ],
  },
  {
    name: "dev-container-setup",
    description:
      "Set up dev containers for VS Code and Codespaces: devcontainer.json, features, extensions, port forwarding. Use when a project needs a reproducible development environment.",
    body: "Start from an official base image. Add tools as features and not in a Dockerfile. Mount the package cache. postCreateCommand installs dependencies. List the extensions that the team needs. Forward ports with labels.",
    requests: [
      "devcontainer for this repo with node 22 and postgres please",
      "It takes every new developer two days until everything compiles on their machine: compiler versions, a local database, a proxy, certificates. I want them to open the repository in the editor and have it all inside a container, the same for everyone and also in the browser. Set that up for us.",
    ],
  },
  {
    name: "kubernetes-debugging",
    description:
      "Debug workloads on Kubernetes: CrashLoopBackOff, pending pods, failing probes, OOMKilled containers, networking. Use when a deployment does not become ready.",
    body: "Describe the pod and read events from the bottom. Look at the previous container's logs. Exit code 137 is memory. Pending means resources, taints or volumes. Test service DNS from a debug pod. Compare with the last revision that worked.",
    requests: [
      "pods restart all the time with exit code 137, what's going on",
      "Since the upgrade of the cluster one of our services does not come up any more. The rollout hangs at one of three replicas, the readiness check says connection refused, while the same image works in staging. I can run kubectl and paste whatever you need. Lead me to the cause step by step.",
    ],
  },
  {
    name: "terraform-modules",
    description:
      "Write, review and refactor Terraform modules for AWS, Azure and Google Cloud: state, variables, drift. Use when infrastructure is described as code or .tf files change.",
    body: "A module has a single purpose, typed variables and outputs. Pin provider versions. Use moved blocks when renaming. Read the plan for replacements before applying. State lives remotely with locking. Never put secrets into tfvars.",
    requests: [
      "terraform wants to destroy and recreate our database just because I renamed the module",
      "Three teams copied the same infrastructure code and changed it in different ways. Bring the networks, buckets and roles together in one reusable thing with inputs that are checked, without anything that runs being recreated, and tell us how each team switches over. The sources are infra/*/main.tf.",
    ],
  },
  {
    name: "github-actions",
    description:
      "Write and speed up GitHub Actions workflows: matrices, caching, reusable workflows, secrets. Use when CI fails, is slow or has to be set up on GitHub.",
    body: "Pin actions by commit. Give the token the least permissions. Cache by the lock file's hash. Cancel superseded runs with concurrency. Split long test suites by timing. Secrets are not available to forks.",
    requests: [
      "our ci on github takes 35 minutes, half of it npm install, make it faster",
      "I maintain a small library and do everything by hand. On each push the tests should run on Linux, Windows and macOS with three versions of Node; when I push a tag it should be published, with provenance, but only if everything was green. Nobody from outside may get at the publishing token through a pull request.",
    ],
  },
  {
    name: "release-notes",
    description:
      "Write changelogs and release notes from commits and merged pull requests. Use when a version is released or users should be told what changed.",
    body: "Group by what users notice: added, changed, fixed, removed. Drop internal changes. Breaking changes come first, with what to do. Link the pull request. Write for someone who upgrades on a Friday.",
    requests: [
      "summarize for our users what is new since v3.1",
      "We ship version 4 on Monday. There are 213 merged changes since the last one, most of them dependency bumps. Find those that customers notice, say in plain words what they get, put what breaks at the top together with what they have to do about it, and thank the outside contributors.",
    ],
  },
  {
    name: "dependency-upgrades",
    description:
      "Upgrade dependencies safely: read changelogs, handle breaking changes, fix security advisories. Use when npm audit, Dependabot or Renovate reports outdated packages.",
    body: "Sort by risk: patch, minor, major. One major per commit. Read the migration guide. Look for peer dependency conflicts. Run the tests after each. An advisory without a reachable path is documented and not rushed.",
    requests: [
      "npm audit shows 14 high vulnerabilities, which of those matter and fix them",
      "Nobody has updated anything in this project for three years. The framework is four majors behind, the test runner is abandoned, and half of the packages are deprecated. Plan in which order we move, do the harmless ones right away, and list for each of the large jumps what will break in our code.",
    ],
  },
  {
    name: "legacy-refactoring",
    description:
      "Refactor legacy code in small safe steps: extract functions, break dependencies, remove duplication. Use when a class is too large or code is hard to change.",
    body: "Get it under test first, with characterization tests. Find a seam. Extract, rename, move: one step per commit. Never mix a refactoring with a change of behavior. Stop when the next change is easy.",
    requests: [
      "OrderManager has 4000 lines and everyone is afraid of it, how do we take it apart",
      "There is one function in our codebase that calculates shipping. It has 61 ifs, five boolean parameters, and the same block copied three times. I have to add a new carrier next month. Restructure it step by step, without changing what it returns, so that a carrier becomes a small thing to add.",
    ],
  },
  {
    name: "security-audit",
    description:
      "Audit source code for vulnerabilities: injection, broken access control, secrets, unsafe deserialization. Use when code should be checked for security holes or before a penetration test.",
    body: "Map entry points and trust boundaries. Follow user input to sinks. Check authorization on each object and not only on routes. Search for secrets. Report with impact, likelihood and a proof of concept. No exploit on systems you do not own.",
    requests: [
      "can somebody get at other customers' documents through our download route? check the code",
      "In three weeks an external company will try to break into our portal, and I would rather find the embarrassing things myself. Walk through the repository, see where what users send ends up in queries, shells or templates, who may access which records, whether keys are lying around, and rank what you find.",
    ],
  },
  {
    name: "regex-helper",
    description:
      "Write, explain and test regular expressions for any engine. Use when a pattern should match or extract something, or a regex is slow or unreadable.",
    body: "Ask which engine. Write the cases that match and those that must not. Anchor. Prefer character classes to dots. Nested quantifiers backtrack catastrophically. Use named groups and the verbose flag for long ones.",
    requests: [
      "regex that matches iso dates but not version numbers like 2024.10.1",
      "I inherited this monster of a pattern that validates addresses in our form. For some inputs the browser tab hangs for half a minute, and nobody understands what it allows. Explain it part by part, tell me which inputs make it explode, and write one that accepts the same but always finishes.",
    ],
  },
  {
    name: "cli-design",
    description:
      "Design command line tools: subcommands, flags, help texts, exit codes, shell completion. Use when a CLI is built or its user interface improved.",
    body: "Verbs for subcommands. Long flags for everything, short ones for the frequent. Output for people on a terminal, JSON with a flag. Errors say what to do next and go to stderr. Exit codes are documented. No prompts without a terminal.",
    requests: [
      "our command has 40 flags and no subcommands, how should it be organized",
      "I am writing a tool for the terminal that syncs folders with a server. How should one call it, what belongs into options and what into arguments, what does it print while it works and when it fails, and how can scripts use it? I also want tab completion in zsh and bash.",
    ],
  },
  {
    name: "mcp-server-builder",
    description:
      "Build Model Context Protocol servers in TypeScript or Python: tools, resources, transports. Use when an API should be made available to an LLM client.",
    body: "Name tools by what a model wants to do. Few tools with clear schemas beat many. Results are short; page long lists. Errors tell the model how to recover. Test with the inspector over stdio before HTTP.",
    requests: [
      "expose our ticket system to claude as mcp tools",
      "People here want to ask their assistant about stock levels and open orders. We have an HTTP interface for both. Write the server that sits between, such that any assistant which speaks the protocol can use it, with few well described tools, read only at first, running on our own machine.",
    ],
  },
  {
    name: "accessibility-audit",
    description:
      "Check web pages for accessibility (WCAG 2.2): keyboard use, contrast, screen readers, ARIA. Use when a site must be usable for people with disabilities.",
    body: "Walk through with the keyboard only. Check focus order and visible focus. Contrast 4.5 to 1. Labels for each input. ARIA only where HTML has nothing. Try NVDA and VoiceOver. Automatic tools find a third.",
    requests: [
      "is our signup page usable with a screen reader and without a mouse",
      "From June on our shop falls under the new law and has to be usable by blind people and by people who cannot use a mouse. Tell me what is wrong with the product list, the filter and the checkout, how serious each thing is, and how the markup has to change.",
    ],
  },
  {
    name: "log-analysis",
    description:
      "Analyze application and server logs: find error patterns, correlate requests, build timelines of incidents. Use when logs are shared to find out what happened.",
    body: "Normalize time zones first. Count by message template, not by line. Look for what is new after the incident began. Follow one request id through all services. The first error matters, the thousandth does not.",
    requests: [
      "what went wrong last night between 2 and 3? nginx and app output is in /var/log",
      "At some point on Thursday customers could not pay for about twenty minutes, and then it went away by itself. I have the output of the gateway, of four services and of the database, two gigabytes together. Find out what happened first, who was affected, and write down the course of events by the minute.",
    ],
  },
];
