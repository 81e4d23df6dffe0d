// OpenAI's SDK for Node, set up by its variables alone. Prints what it got as JSON.
import fs from "node:fs";
import OpenAI from "openai";

const client = new OpenAI({ maxRetries: 0 });
const ask = {
  model: "scripted",
  temperature: 0,
  messages: [{ role: "user", content: "What is the capital of France?" }],
};

function getWeather({ city }) {
  fs.writeFileSync(`${city}.txt`, "21 degrees, clear");
  return "21 degrees, clear";
}

const tools = ["get_weather", "get_time"].map((name) => ({
  type: "function",
  function: {
    name,
    description: name === "get_weather" ? "The weather in a city" : "The time in a city",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    parse: JSON.parse,
    function: getWeather,
  },
}));
const loop = {
  ...ask,
  messages: [{ role: "user", content: "What is the weather in Paris?" }],
  tools,
};

const models = [];
for await (const model of client.models.list()) models.push(model.id);
const whole = await client.chat.completions.create(ask);
const streamed = await client.chat.completions.stream(ask).finalContent();
const afterCall = await client.chat.completions.runTools(loop).finalContent();
const streamedAfterCall = await client.chat.completions
  .runTools({ ...loop, stream: true })
  .finalContent();
const response = await client.responses.create({ model: "scripted", input: "hi", temperature: 0 });

console.log(
  JSON.stringify({
    models,
    texts: [whole.choices[0].message.content, streamed, response.output_text],
    afterCalls: [afterCall, streamedAfterCall],
  }),
);
