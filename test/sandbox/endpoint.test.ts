import { isIPv4 } from "node:net";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatEndpoint, isPrivateAddress, parseEndpoint } from "../../src/sandbox/sandbox-network.ts";

describe("readEndpoint", () => {
  it.each([
    ["api.example.com:443", "api.example.com", 443],
    ["API.Example.COM.:443", "api.example.com", 443],
    ["localhost:1", "localhost", 1],
    ["my_service:65535", "my_service", 65_535],
    ["bücher.example:443", "xn--bcher-kva.example", 443],
    ["BÜCHER.example:443", "xn--bcher-kva.example", 443],
    ["127.0.0.1:5432", "127.0.0.1", 5432],
    ["[::1]:80", "::1", 80],
    ["[0:0:0:0:0:0:0:1]:80", "::1", 80],
    ["[2001:DB8::A]:80", "2001:db8::a", 80],
  ])("[Q-14] reads %s as one host and one port", (text, host, port) => {
    expect(parseEndpoint(text)).toEqual({ host, port });
  });

  it.each([
    // No host, or no valid port
    "",
    "example.com",
    ":443",
    "example.com:",
    "example.com:0",
    "example.com:65536",
    "example.com:0443",
    "example.com:+443",
    "example.com:4e2",
    "example.com:443 ",
    " example.com:443",
    "example.com:443\n",
    // More than a host
    "https://example.com:443",
    "example.com:443/path",
    "user@example.com:443",
    "user:password@example.com:443",
    "example.com#x:443",
    "example.com?x:443",
    "example.com\\x:443",
    "a,b:443",
    // Not exact
    "*.example.com:443",
    "*:443",
    "example.com:*",
    "exa%6dple.com:443",
    "exam\u00adple.com:443",
    "exam\tple.com:443",
    // No possible name
    "-a.example:443",
    "a..example:443",
    ".example:443",
    "example.com..:443",
    `${"a".repeat(64)}.example:443`,
    `${"a.".repeat(127)}example:443`,
    // IPv4 in another notation
    "127.1:80",
    "2130706433:80",
    "0x7f.1:80",
    "0x7f000001:80",
    "0177.0.0.1:80",
    "127.0.0.01:80",
    "127.0.0.1.:80",
    "127.0.0.0x1:80",
    "１２７.0.0.1:80",
    "127。0。0。1:80",
    "1.2.3.4.5:80",
    "example.123:80",
    "[::ffff:127.0.0.1]:80",
    "[::ffff:7f00:1]:80",
    // Invalid IPv6, or more than an address
    "::1:80",
    "[::1]",
    "[::1%lo]:80",
    "[fe80::1%25eth0]:80",
    "[example.com]:80",
    "[127.0.0.1]:80",
    "[[::1]]:80",
  ])("[Q-14] refuses %j", (text) => {
    expect(parseEndpoint(text)).toBeUndefined();
  });

  it("[Q-14] parses its own output as the same endpoint", () => {
    const host = fc.oneof(
      fc.domain(),
      fc.ipV4(),
      fc.ipV6().map((address) => `[${address}]`),
      fc.string(),
    );
    fc.assert(
      fc.property(host, fc.integer({ min: 1, max: 65_535 }), (name, port) => {
        const endpoint = parseEndpoint(`${name}:${port}`);
        if (endpoint) expect(parseEndpoint(formatEndpoint(endpoint))).toEqual(endpoint);
      }),
    );
  });

  it("[Q-14] never parses a URL's address as a name", () => {
    const part = fc.oneof(
      fc.nat({ max: 0xffffffff }).map(String),
      fc.nat({ max: 0xffffffff }).map((n) => `0x${n.toString(16)}`),
    );
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 4 }), (parts) => {
        const host = parseEndpoint(`${parts.join(".")}:80`)?.host;
        if (host !== undefined) expect([host, isIPv4(host)]).toEqual([parts.join("."), true]);
      }),
    );
  });
});

describe("isPrivate", () => {
  it.each([
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:a9fe:a9fe",
    "::ffff:0:10.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::8.8.8.8",
    "2002:7f00:1::",
    "2002:c0a8:101::1",
    "2001::1",
    "2001:db8::1",
    "2a00:1450::5efe:10.0.0.1",
    "2a00:1450::200:5efe:a00:1",
    "3fff::1",
    "5f00::1",
    "100::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    // Not in the notation of addresses
    "",
    "localhost",
    "127.1",
    "0x7f.1",
    "2130706433",
    "[::1]",
    "2a00:1450::1%eth0",
  ])("[Q-14] counts %j as private", (address) => {
    expect(isPrivateAddress(address)).toBe(true);
  });

  it.each([
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.255.255",
    "192.169.0.0",
    "223.255.255.255",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2002:808:808::1",
    "2001:4860:4860::8888",
    "2606:4700:4700::1111",
    "2a00:1450:4001::5efe:8.8.8.8",
  ])("[Q-14] counts %s as public", (address) => {
    expect(isPrivateAddress(address)).toBe(false);
  });

  it("[Q-14] classifies an IPv4 address the same in every form of IPv6 that represents it", () => {
    fc.assert(
      fc.property(fc.ipV4(), (address) => {
        const forms = [`::ffff:${address}`, `::ffff:0:${address}`, `64:ff9b::${address}`];
        expect(forms.map(isPrivateAddress)).toEqual(forms.map(() => isPrivateAddress(address)));
      }),
    );
  });
});
