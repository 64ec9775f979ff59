import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    exclude: ["test/fixtures/**", "**/node_modules/**"],
    setupFiles: ["test/support/machine.ts"],
    // Tests wait for processes more than they compute: one worker fewer than there are processors would leave half of two idle.
    maxWorkers: "100%",
    testTimeout: 20_000,
    hookTimeout: 60_000,
    // A test that changes the environment of the process would change it for all others: none may.
    unstubEnvs: true,
  },
});
