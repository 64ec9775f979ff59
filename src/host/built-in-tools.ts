/** A tool that a run is given without anybody adding it. */
export interface BuiltInTool {
  name: string;
  /** `sandbox`: it starts programs, so that a host can switch it off. `network`: also only where the skill was granted hosts to reach. `search`: where a search engine is configured. */
  needs?: "sandbox" | "network" | "search";
}

export const BUILT_IN_TOOLS: readonly BuiltInTool[] = [
  { name: "bash", needs: "sandbox" },
  { name: "read_file", needs: "sandbox" },
  { name: "write_file", needs: "sandbox" },
  { name: "edit_file", needs: "sandbox" },
  { name: "list_files", needs: "sandbox" },
  { name: "grep", needs: "sandbox" },
  { name: "web_search", needs: "search" },
  { name: "web_fetch", needs: "network" },
  { name: "run_skill_script", needs: "sandbox" },
  { name: "list_skills" },
  { name: "use_skill" },
  { name: "read_skill_resource" },
  { name: "complete" },
];
