"use strict";
/* Pages that are opened as files may not start workers: the search of the site then runs in a frame that nobody sees. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = (...addresses) =>
        addresses.reduce((before, one) => before.then(() => this.load(one)), Promise.resolve());
      this.loaded = this.load(address);
    }

    load(address) {
      const script = this.inside.document.createElement("script");
      script.src = new URL(address, location);
      return new Promise((done, failed) => {
        script.onload = done;
        script.onerror = failed;
        this.inside.document.body.append(script);
      });
    }

    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
