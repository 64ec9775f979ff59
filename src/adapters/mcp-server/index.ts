export { formatWireName } from "../../skill/tool-names.ts";
export { type HttpMcpServer, type HttpServerOptions, serveHttp } from "./http-server.ts";
export { createMcpServer, type McpServerOptions } from "./mcp-server.ts";
export { type MountOptions, mountSkills, type SkillMount } from "./mount-skills.ts";
export { createSkillServer, type SkillServer, type SkillServerOptions } from "./skill-server.ts";
export { type StdioStreams, serveStreams } from "./stdio-transport.ts";
export { createResultEnvelope, normalizeSchema, type ResultEnvelope } from "./tool-envelope.ts";
