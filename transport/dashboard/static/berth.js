// Keeps the parts of a page that say data-part as the server has them. Without
// this script a page stays as it was loaded.
"use strict";
(() => {
  const from = document.body.dataset.live;
  const pulse = document.getElementById("pulse");
  const waiting = new Map(); // parts that are in use, until they are not
  let source = null;

  const say = (text, state) => {
    pulse.hidden = false;
    pulse.textContent = text;
    pulse.dataset.state = state;
  };

  // A part is in use while it has the focus, a pressed button, a selection, or
  // something typed.
  const inUse = (el) => {
    if (el.contains(document.activeElement) || el.querySelector(":active") !== null) return true;
    const selection = document.getSelection();
    if (selection && !selection.isCollapsed && el.contains(selection.anchorNode)) return true;
    return [...el.querySelectorAll("input:not([type=hidden]), textarea")].some((i) => i.value !== i.defaultValue) ||
      el.querySelector("details[open]:not(.file)") !== null;
  };

  const swap = (id, html) => {
    const el = document.querySelector(`[data-part="${CSS.escape(id)}"]`);
    if (!el) return;
    waiting.delete(id);
    const fresh = new DOMParser().parseFromString(html, "text/html");
    if (fresh.body.innerHTML === el.innerHTML) return;
    if (inUse(el)) {
      waiting.set(id, html);
      return;
    }
    const up = el.querySelector(".tail")?.scrollTop ?? 0; // 0 is the end, where a new line belongs
    el.replaceChildren(...fresh.body.childNodes);
    const tail = el.querySelector(".tail");
    if (tail) tail.scrollTop = up;
  };

  const retry = () => setTimeout(() => { for (const [id, html] of [...waiting]) swap(id, html); }, 0);

  const open = () => {
    if (source || document.hidden) return;
    source = new EventSource(from);
    source.addEventListener("open", () => say("Live", "on"));
    source.addEventListener("part", (e) => {
      const part = JSON.parse(e.data);
      swap(part.ID, part.HTML);
    });
    source.addEventListener("over", () => { close(); say("Load again to see what it is now", "off"); });
    source.addEventListener("error", () => {
      if (source && source.readyState === EventSource.CLOSED) {
        close();
        say("Not live", "off");
      } else {
        say("Connecting again", "off");
      }
    });
  };

  const close = () => {
    if (source) source.close();
    source = null;
  };

  // A page that nobody sees holds no connection: a browser has few of them.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      close();
      say("Paused", "off");
    } else {
      open();
    }
  });
  document.addEventListener("focusout", retry);
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  open();
})();
