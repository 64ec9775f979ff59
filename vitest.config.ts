import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    exclude: ["test/fixtures/**"],
    setupFiles: ["test/support/machine.ts"],
    testTimeout: 20_000,
    hookTimeout: 60_000,
    // A test that changes the environment of the process would change it for all others: none may.
    unstubEnvs: true,
  },
});
