import { scriptsOf } from "../../skill/script.ts";
import type { Tool } from "../../skill/tool.ts";
import type { Enclosure } from "../enclosure.ts";
import { bashTool } from "./bash.ts";
import { editFileTool, readFileTool, writeFileTool } from "./files.ts";
import { grepTool, listFilesTool } from "./find.ts";
import { skillScriptTool } from "./skill-script.ts";
import type { ToolScene } from "./tool-scene.ts";
import { webFetchTool } from "./web-fetch.ts";

/** The tools that are built in, as far as they can do anything in this run. */
export function runTools(enclosure: Enclosure, given: Omit<ToolScene, "enclosure">): Tool[] {
  const scene: ToolScene = { ...given, enclosure };
  const { access, places, network } = enclosure;
  const { skill } = given;
  const hasFiles = places.workspace !== undefined || places.skill !== undefined;
  return [
    bashTool(scene),
    ...(hasFiles ? [readFileTool(scene)] : []),
    ...(access === "read-write" ? [writeFileTool(scene), editFileTool(scene)] : []),
    ...(hasFiles ? [listFilesTool(scene), grepTool(scene)] : []),
    ...(network.length > 0 ? [webFetchTool(scene)] : []),
    ...(skill && places.skill !== undefined && scriptsOf(skill).length > 0 ? [skillScriptTool(scene, skill)] : []),
  ];
}
