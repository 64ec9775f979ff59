import { defineConfig } from "vitest/config";

/** Tests that take minutes and large downloads, and are no part of the gate: `npm run test:long`. */
export default defineConfig({
  test: {
    include: ["test/**/*.long.ts"],
    exclude: ["**/node_modules/**"],
    setupFiles: ["test/support/machine.ts"],
    testTimeout: 600_000,
    hookTimeout: 600_000,
    maxWorkers: 1,
  },
});
