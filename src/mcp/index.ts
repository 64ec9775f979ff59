export { type HttpOptions, type HttpServing, serveHttp } from "./http.ts";
export { openServing, type ServeOptions, type Serving } from "./serve.ts";
export { createMcpServer, type McpOptions } from "./server.ts";
export { type StdioStreams, serveStreams } from "./stdio.ts";
