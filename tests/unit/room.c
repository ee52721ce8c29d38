/* Linked with one room's library, whole, and what the room may use: an undefined symbol is a call that the table of
 * docs/ARCHITECTURE.md does not allow. */
int main(void) { return 0; }
