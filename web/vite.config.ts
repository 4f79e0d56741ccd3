import { defineConfig } from "vite";

// Everything is a file of its own under assets/, with its hash in its name: the daemon lets browsers keep those for ever, and its
// content security policy allows no inline code and no data addresses.
export default defineConfig({
  base: "./",
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: false,
    reportCompressedSize: false,
  },
  server: {
    proxy: { "/api": process.env.MIDAS_ADMIN ?? "http://127.0.0.1:8300" },
  },
});
