// A recording from the microphone, and its words from the server.

import { send } from "./api.js";

const ENDINGS = { "audio/webm": "webm", "audio/mp4": "mp4", "audio/ogg": "ogg" };

// Browsers give the microphone to pages of this machine or with https alone.
export const canRecord = () => Boolean(navigator.mediaDevices && window.MediaRecorder);

export class Recording {
  #recorder;
  #pieces = [];

  static async start() {
    const recording = new Recording();
    const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
    recording.#recorder = new MediaRecorder(stream);
    recording.#recorder.addEventListener("dataavailable", ({ data }) =>
      recording.#pieces.push(data),
    );
    recording.#recorder.start();
    return recording;
  }

  // The recording, whole. The microphone is let go.
  stop() {
    return new Promise((resolve) => {
      this.#recorder.addEventListener("stop", () => {
        for (const track of this.#recorder.stream.getTracks()) track.stop();
        resolve(new Blob(this.#pieces, { type: this.#recorder.mimeType }));
      });
      this.#recorder.stop();
    });
  }
}

export async function transcribe(recording, model) {
  const form = new FormData();
  const type = recording.type.split(";", 1)[0];
  form.append("file", recording, `recording.${ENDINGS[type] ?? "webm"}`);
  form.append("model", model);
  const answer = await send("v1/audio/transcriptions", { body: form });
  return (await answer.json()).text.trim();
}
