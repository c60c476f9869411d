// A server that limits with express-rate-limit: /draft-6, /draft-7, /draft-8 and /legacy, each 3 per 10 s for every
// ?client=. Prints its port, and ends when its standard input does.
import express from "express";
import { rateLimit } from "express-rate-limit";

const app = express();
const limited = (headers) =>
  rateLimit({
    windowMs: 10_000,
    limit: 3,
    keyGenerator: (request) => request.query.client,
    ...headers,
  });
for (const draft of ["draft-6", "draft-7", "draft-8"]) {
  app.use(`/${draft}`, limited({ standardHeaders: draft, legacyHeaders: false }));
}
app.use("/legacy", limited({ standardHeaders: false, legacyHeaders: true }));
app.use((request, response) => response.send("passed\n"));

const server = app.listen(0, "127.0.0.1", (error) => {
  if (error) throw error;
  console.log(server.address().port);
});
process.stdin.on("end", () => process.exit(0)).resume();
