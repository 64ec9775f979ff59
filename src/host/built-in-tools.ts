/** A tool that a run is given without anybody adding it. */
export interface BuiltInTool {
  name: string;
  /** Only where the skill was granted hosts to reach. */
  needs?: "network";
}

export const BUILT_IN_TOOLS: readonly BuiltInTool[] = [
  { name: "bash" },
  { name: "read_file" },
  { name: "write_file" },
  { name: "edit_file" },
  { name: "list_files" },
  { name: "grep" },
  { name: "web_fetch", needs: "network" },
  { name: "list_skills" },
  { name: "use_skill" },
  { name: "read_skill_resource" },
  { name: "run_skill_script" },
  { name: "complete" },
];
