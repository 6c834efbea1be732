"""`python -m seq2seq_chat` is `seq2seq-chat`."""

from seq2seq_chat.cli import main

if __name__ == "__main__":
    main()
