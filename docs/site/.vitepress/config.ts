import { defineConfig } from "vitepress";

/** The address of the site below its host, such as `/skillet/`. */
const base = process.env["SITE_BASE"] ?? "/";

const page = (text: string, name: string) => ({ text, link: `/${name}` });

export default defineConfig({
  title: "skillet",
  description: "The toolkit for Agent Skills: find them, fix them, give them to any agent, run them in a sandbox.",
  base,
  srcDir: ".pages",
  outDir: "dist",
  cacheDir: ".cache",
  cleanUrls: true,
  lastUpdated: false,
  themeConfig: {
    search: { provider: "local", options: { miniSearch: { searchOptions: { fuzzy: 0.2, prefix: true } } } },
    outline: [2, 3],
    nav: [
      page("Get started", "getting-started"),
      page("Guides", "supply"),
      page("Reference", "cli"),
      page("Security", "security"),
    ],
    sidebar: [
      {
        text: "Get started",
        items: [
          page("Getting started", "getting-started"),
          page("Concepts", "concepts"),
          page("Migrating", "migrating"),
        ],
      },
      {
        text: "Use skills",
        items: [
          page("Discovery", "discovery"),
          page("Adding and updating", "supply"),
          page("Connecting clients", "connect"),
          page("Hooks", "hooks"),
          page("Exporting", "export"),
          page("Running", "use"),
          page("Models", "models"),
          page("Runs and approvals", "runs"),
          page("Trust", "trust"),
          page("Statistics and traces", "statistics"),
        ],
      },
      {
        text: "Write skills",
        items: [
          page("Writing skills", "skills"),
          page("Disclosure", "disclosure"),
          page("Evaluating", "eval"),
          page("Scripts", "scripts"),
          page("Toolsets", "toolsets"),
          page("Packages", "packages"),
          page("Signatures", "signatures"),
          page("CI", "ci"),
        ],
      },
      {
        text: "Build agents",
        items: [
          page("Embedding", "embedding"),
          page("AI SDK", "ai"),
          page("Prompt sections", "prompts"),
          page("Claude Agent SDK", "claude"),
          page("Tools", "tools"),
        ],
      },
      {
        text: "Run skills for others",
        items: [
          page("Security", "security"),
          page("Sandbox", "sandbox"),
          page("Capabilities", "capabilities"),
          page("Providers", "providers"),
          page("MCP server", "mcp"),
          page("Operating a server", "operating"),
          page("Workers", "workers"),
          page("Studio", "studio"),
          page("Remote skills", "remote"),
          page("Scanner", "scan"),
        ],
      },
      {
        text: "Reference",
        collapsed: true,
        items: [
          page("Commands", "cli"),
          page("Configuration", "config"),
          page("Errors", "errors"),
          page("JSON output", "json"),
          page("API", "api/"),
          page("Specifications", "specs"),
          page("Comparison", "comparison"),
          page("Benchmarks", "benchmarks"),
        ],
      },
      { text: "Help", items: [page("Troubleshooting", "troubleshooting"), page("FAQ", "faq")] },
    ],
  },
});
