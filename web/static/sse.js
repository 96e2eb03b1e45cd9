// Server-sent events, as far as the API uses them. https://html.spec.whatwg.org/multipage/server-sent-events.html

const longest = 16 << 20; // characters of a line

// Lines splits chunks of text into lines.
export class Lines {
  #rest = "";
  // push returns the lines that a chunk completes.
  push(chunk) {
    const lines = (this.#rest + chunk).split(/\r\n|\n/);
    this.#rest = lines.pop();
    if (this.#rest.length > longest) throw new Error("The server sent a line that is too long.");
    return lines;
  }
}

// dataOf yields what the events of a body say, until [DONE]. A body that ends without it was cut off, which is an error.
export async function* dataOf(body) {
  const lines = new Lines(), decoder = new TextDecoder(), reader = body.getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) throw new Error("The connection broke before the answer was complete.");
      for (const line of lines.push(decoder.decode(value, { stream: true }))) {
        if (!line.startsWith("data:")) continue; // comments keep the connection alive
        const data = line.slice(5).trim();
        if (data === "[DONE]") return;
        yield JSON.parse(data);
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
